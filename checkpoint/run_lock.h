// Exclusive lock of a run folder.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "checkpoint/lock_holder.h"
#include "core/base/error.h"
#include "core/base/owned_fd.h"

namespace accel {

/// The run folder was removed, moved (ExitCode::kIo) or taken over by another process
/// (ExitCode::kInUse): this process must not write to its path any more.
class LostFolderError final : public Error {
 public:
  using Error::Error;
};

/// Limits of the wait for a lock.
struct LockWait {
  /// A holder may be killed, or release the lock, between two looks at it.
  std::chrono::milliseconds patience{200};
  /// For a holder that is ending: see is_ending().
  std::chrono::milliseconds ending{10000};
};

/// Locks `run_dir`/run.lock during its lifetime. The kernel releases the lock of a killed process.
/// The file has the holder's name until a regular release.
class RunLock {
 public:
  /// `run_dir` must exist. `local_ranks`: ranks that the parent process, accel-run's launcher, has
  /// started on this machine; 0 without one. Waits for a holder that is ending. Throws Error with
  /// ExitCode::kInUse and the holder's name when another process keeps the lock, IoError when the
  /// file cannot be created.
  explicit RunLock(std::string run_dir, int64_t local_ranks = 0, LockWait wait = {});
  /// Throws as the constructor while another process has the lock. Changes nothing.
  static void check_free(const std::string& run_dir, LockWait wait = {});
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  /// The previous holder, if it was on another machine and has not released the lock: it may be
  /// alive on a network file system without distributed locks. Else empty.
  const std::string& doubtful_holder() const { return doubtful_holder_; }

  /// Checks that the folder and the file are still those that were locked. Makes and locks a
  /// removed or replaced file again, with a warning. Throws LostFolderError, and then in every
  /// later call, and IoError.
  void check();

 private:
  using FileId = std::pair<dev_t, ino_t>;

  static std::optional<FileId> id_of(const std::string& path);
  static std::optional<FileId> id_of(const OwnedFd& fd);
  [[noreturn]] void lose(ExitCode code, const std::string& message, const std::string& hint);
  [[noreturn]] void lose_folder();
  std::string path() const { return run_dir_ + "/run.lock"; }
  void lock_again();
  void write_entry();

  std::string run_dir_;
  LockHolder self_;
  OwnedFd folder_;
  OwnedFd fd_;
  std::string doubtful_holder_;
  std::optional<LostFolderError> lost_;
};

}  // namespace accel
