#include "runner/plan/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

namespace accel {
namespace {

std::optional<int64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  int64_t value = 0;
  if (!(file >> value)) return std::nullopt;  // also for "max"
  return value;
}

std::optional<int64_t> machine_has(const std::string& root) {
  std::ifstream file(root + "/proc/meminfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("MemAvailable:")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    int64_t kibibytes = 0;
    if (words >> kibibytes) return kibibytes << 10;
  }
  return std::nullopt;
}

/// What the group in `folder` and those around it up to `top` leave.
void narrow(const std::string& top, std::string group, const char* limit, const char* use,
            std::optional<int64_t>& least) {
  while (true) {
    const std::string folder = top + group + "/";
    const std::optional<int64_t> most = number_in(folder + limit), now = number_in(folder + use);
    if (most && now) {
      const int64_t left = std::max<int64_t>(0, *most - *now);
      least = least ? std::min(*least, left) : left;
    }
    const size_t slash = group.rfind('/');
    if (slash == std::string::npos || group.size() <= 1) return;
    group.resize(slash);
  }
}

}  // namespace

int64_t available_memory(const std::string& root) {
  std::optional<int64_t> least = machine_has(root);
  std::ifstream groups(root + "/proc/self/cgroup");
  for (std::string line; std::getline(groups, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    const std::string group = line.substr(second + 1);
    if (controllers == ",,") {
      narrow(root + "/sys/fs/cgroup", group, "memory.max", "memory.current", least);
    } else if (controllers.find(",memory,") != std::string::npos) {
      narrow(root + "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes",
             "memory.usage_in_bytes", least);
    }
  }
  return least.value_or(0);
}

}  // namespace accel
