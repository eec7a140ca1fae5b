// Memory limits of the machine, its control groups (cgroups(7)) and its processes (getrlimit(2)),
// and kills by the OOM killer.
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

/// Bytes that `processes` processes with this one's limits may still allocate together: the least
/// of the machine's available memory, the control groups' limits and `processes` times what
/// RLIMIT_DATA and RLIMIT_AS leave to this one. 0: unknown. `root` is the prefix of /proc and /sys.
int64_t available_memory(int64_t processes = 1, const std::string& root = "");

}  // namespace accel
