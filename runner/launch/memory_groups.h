// The control groups that limit this process's memory: cgroups(7).
#pragma once

#include <string>
#include <vector>

namespace accel {

struct MemoryGroup {
  std::string top;   ///< where the hierarchy is mounted
  std::string path;  ///< below it, "/" or "/a/b"
  bool second;       ///< of cgroup 2, whose files have other names
};

/// In the order of /proc/self/cgroup. `root` stands before /proc and /sys.
std::vector<MemoryGroup> memory_groups(const std::string& root);

}  // namespace accel
