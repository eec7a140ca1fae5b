#include "runner/plan/machine_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

#include "runner/launch/memory_groups.h"

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

/// What the group and those around it leave.
void narrow(MemoryGroup group, const char* limit, const char* use, std::optional<int64_t>& least) {
  while (true) {
    const std::string folder = group.top + group.path + "/";
    const std::optional<int64_t> most = number_in(folder + limit), now = number_in(folder + use);
    if (most && now) {
      const int64_t left = std::max<int64_t>(0, *most - *now);
      least = least ? std::min(*least, left) : left;
    }
    const size_t slash = group.path.rfind('/');
    if (slash == std::string::npos || group.path.size() <= 1) return;
    group.path.resize(slash);
  }
}

}  // namespace

int64_t available_memory(const std::string& root) {
  std::optional<int64_t> least = machine_has(root);
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
