#include "runner/launch/oom_watch.h"

#include <fstream>
#include <optional>
#include <utility>
#include <vector>

#include "runner/launch/memory_groups.h"

namespace accel {
namespace {

/// N of the line "oom_kill N".
std::optional<int64_t> kills_in(const std::string& file) {
  std::ifstream in(file);
  std::string name;
  int64_t value = 0;
  while (in >> name >> value) {
    if (name == "oom_kill") return value;
  }
  return std::nullopt;
}

/// Where the counts of this process's group are: of cgroup 2, then 1, then of the whole machine.
std::vector<std::string> counters(const std::string& root) {
  std::vector<std::string> files;
  for (const MemoryGroup& group : memory_groups(root)) {
    files.push_back(group.top + group.path +
                    (group.second ? "/memory.events" : "/memory.oom_control"));
  }
  files.push_back(root + "/proc/vmstat");
  return files;
}

}  // namespace

OomWatch::OomWatch(std::string root) : root_(std::move(root)), before_(count()) {}

int64_t OomWatch::count() const {
  for (const std::string& file : counters(root_)) {
    if (const auto kills = kills_in(file)) return *kills;
  }
  return 0;
}

}  // namespace accel
