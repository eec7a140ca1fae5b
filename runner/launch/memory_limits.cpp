#include "runner/launch/memory_limits.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <utility>

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

/// Files with the kill count: of cgroup v2, of v1, of the whole machine.
std::vector<std::string> counters(const std::string& root) {
  std::vector<std::string> files;
  for (const MemoryGroup& group : memory_groups(root)) {
    files.push_back(group.top + group.path +
                    (group.second ? "/memory.events" : "/memory.oom_control"));
  }
  files.push_back(root + "/proc/vmstat");
  return files;
}

std::optional<int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (!(file >> value)) return std::nullopt;  // also for "max"
  return value;
}

/// The number after `name` in a file of lines "NAME N ...", as /proc has them.
std::optional<int64_t> number_of(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with(name)) continue;
    std::istringstream words(line.substr(name.size()));
    int64_t value = 0;
    if (words >> value) return value;
  }
  return std::nullopt;  // also for "unlimited"
}

void lower(std::optional<int64_t>& least, std::optional<int64_t> limit, int64_t used) {
  if (!limit) return;
  const int64_t left = std::max<int64_t>(0, *limit - used);
  least = least ? std::min(*least, left) : left;
}

/// The remainder of this process's limits.
std::optional<int64_t> process_has(const std::string& root) {
  const std::string limits = root + "/proc/self/limits", status = root + "/proc/self/status";
  const auto used = [&](const char* name) { return number_of(status, name).value_or(0) << 10; };
  std::optional<int64_t> least;
  lower(least, number_of(limits, "Max data size "), used("VmData:"));
  lower(least, number_of(limits, "Max address space "), used("VmSize:"));
  return least;
}

/// Lowers `least` to the remainder of the group and its ancestors.
void narrow(MemoryGroup group, const char* limit, const char* use, std::optional<int64_t>& least) {
  while (true) {
    const std::string folder = group.top + group.path + "/";
    const std::optional<int64_t> most = number_in(folder + limit), now = number_in(folder + use);
    if (now) lower(least, most, *now);
    const size_t slash = group.path.rfind('/');
    if (slash == std::string::npos || group.path.size() <= 1) return;
    group.path.resize(slash);
  }
}

}  // namespace

std::vector<MemoryGroup> memory_groups(const std::string& root) {
  std::vector<MemoryGroup> found;
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string path = line.substr(second + 1);
    if (controllers == ",,") {
      found.push_back({root + "/sys/fs/cgroup", path, true});
    } else if (controllers.find(",memory,") != std::string::npos) {
      found.push_back({root + "/sys/fs/cgroup/memory", path, false});
    }
  }
  return found;
}

OomWatch::OomWatch(std::string root) : root_(std::move(root)), before_(count()) {}

int64_t OomWatch::count() const {
  for (const std::string& file : counters(root_)) {
    if (const auto kills = kills_in(file)) return *kills;
  }
  return 0;
}

int64_t available_memory(int64_t processes, const std::string& root) {
  std::optional<int64_t> least;
  if (const auto kibibytes = number_of(root + "/proc/meminfo", "MemAvailable:")) {
    least = *kibibytes << 10;
  }
  if (const auto own = process_has(root)) lower(least, *own * processes, 0);
  for (const MemoryGroup& group : memory_groups(root)) {
    if (group.second) {
      narrow(group, "memory.max", "memory.current", least);
    } else {
      narrow(group, "memory.limit_in_bytes", "memory.usage_in_bytes", least);
    }
  }
  return least.value_or(0);
}

}  // namespace accel
