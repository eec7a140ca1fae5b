#include "runner/launch/oom_watch.h"

#include <fstream>
#include <optional>
#include <utility>
#include <vector>

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
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") files.push_back(root + "/sys/fs/cgroup" + group + "/memory.events");
    if (controllers.find(",memory,") == std::string::npos) continue;
    files.push_back(root + "/sys/fs/cgroup/memory" + group + "/memory.oom_control");
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
