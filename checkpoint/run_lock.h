// Exclusive lock of a run folder.
#pragma once

#include <string>

#include "core/base/owned_fd.h"

namespace accel {

/// Locks `run_dir`/run.lock during its lifetime. The kernel releases the lock of a killed process.
/// The file has the holder's name until a regular release.
class RunLock {
 public:
  /// `run_dir` must exist. Throws Error with ExitCode::kRecipe and the holder's name when another
  /// process has the lock, IoError when the file cannot be created.
  explicit RunLock(const std::string& run_dir);
  /// Throws as the constructor while another process has the lock. Changes nothing.
  static void check_free(const std::string& run_dir);
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// The previous holder, if it was on another machine and has not released the lock: it may be
  /// alive on a network file system without distributed locks. Else empty.
  const std::string& doubtful_holder() const { return doubtful_holder_; }

 private:
  OwnedFd fd_;
  std::string doubtful_holder_;
};

}  // namespace accel
