// Keeps a second job out of a run folder.
#pragma once

#include <string>

namespace accel {

/// Holds `run_dir`/run.lock for as long as it lives; the kernel lets go when the process dies, so a
/// killed job never blocks the next one. The holder's name is in the file until it lets go itself.
class RunLock {
 public:
  /// `run_dir` must exist. Throws Error with ExitCode::kRecipe naming the holder when another
  /// process has it, IoError when the file cannot be made.
  explicit RunLock(const std::string& run_dir);
  /// Throws what the constructor would while another process has it. Changes nothing.
  static void check_free(const std::string& run_dir);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// Who had it before and never let go, if that was on another machine: here the kernel knows that
  /// it is dead, but not every network file system passes locks on. Else empty.
  const std::string& doubtful_holder() const { return doubtful_holder_; }

 private:
  int fd_ = -1;
  std::string doubtful_holder_;
};

}  // namespace accel
