// Whether the kernel has ended processes for lack of memory.
#pragma once

#include <cstdint>
#include <string>

namespace accel {

/// Counts from when it is made. It looks at this process's control group, or else at the machine.
class OomWatch {
 public:
  /// `root` stands for "/" in tests.
  explicit OomWatch(std::string root = "");

  bool killed() const { return count() > before_; }

 private:
  int64_t count() const;

  std::string root_;
  int64_t before_;
};

}  // namespace accel
