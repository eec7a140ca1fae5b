// Memory limits of the machine and its control groups (cgroups(7)), and kills by the OOM killer.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accel {

/// A control group that limits the memory of this process.
struct MemoryGroup {
  std::string top;   ///< mount point of the hierarchy
  std::string path;  ///< below it, "/" or "/a/b"
  bool second;       ///< cgroup v2, whose files have other names
};

/// In the order of /proc/self/cgroup. `root` is the prefix of /proc and /sys.
std::vector<MemoryGroup> memory_groups(const std::string& root);

/// Counts kills by the OOM killer since its construction, in this process's control group, else on
/// the machine.
class OomWatch {
 public:
  /// `root` replaces "/" in tests.
  explicit OomWatch(std::string root = "");

  bool killed() const { return count() > before_; }

 private:
  int64_t count() const;

  std::string root_;
  int64_t before_;
};

/// Bytes that this process and its children may still allocate: the least of the machine's
/// available memory and the control groups' limits. 0: unknown. `root` is the prefix of /proc and
/// /sys.
int64_t available_memory(const std::string& root = "");

}  // namespace accel
