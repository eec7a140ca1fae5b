// Keeps a second job out of a run folder.
#pragma once

#include <string>

namespace accel {

/// Holds `run_dir`/run.lock for as long as it lives; the kernel lets go when the process dies, so a
/// killed job never blocks the next one.
class RunLock {
 public:
  /// `run_dir` must exist. Throws Error with ExitCode::kRecipe naming the holder when another
  /// process has it, IoError when the file cannot be made.
  explicit RunLock(const std::string& run_dir);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

 private:
  int fd_ = -1;
};

}  // namespace accel
