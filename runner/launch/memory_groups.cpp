#include "runner/launch/memory_groups.h"

#include <fstream>

namespace accel {

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

}  // namespace accel
