// Detects that the files of a run are removed, moved or taken over while it trains.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>

#include "checkpoint/run_lock.h"

namespace accel {

/// Checks the run folder, its lock and its record before anything is written to them. Used by rank
/// 0. Costs three stat(2) calls.
class RunGuard {
 public:
  /// `lock` outlives the guard; `record` is the path of the record, which exists.
  RunGuard(RunLock& lock, std::string record);

  /// Locks the folder again when its lock was removed; warns once when the record was. Throws
  /// LostFolderError and IoError.
  void check();
  /// The error of check() when the folder is lost.
  std::optional<LostFolderError> lost();

 private:
  std::optional<std::pair<dev_t, ino_t>> record_id() const;

  RunLock& lock_;
  std::string record_;
  std::optional<std::pair<dev_t, ino_t>> id_;  ///< of the record; nothing once warned of
};

}  // namespace accel
