// The process that holds the lock of a run folder, as run.lock describes it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

namespace accel {

struct LockHolder {
  std::string name;  ///< "process 12 on host 'a'"; empty: none
  std::string host;
  std::string boot;         ///< boot id of its machine
  pid_t pid = 0;            ///< 0: unknown
  pid_t launcher = 0;       ///< the process that started it and the other ranks; 0: none
  int64_t local_ranks = 0;  ///< ranks of the launcher
};

/// This process. `local_ranks`: ranks that its parent has started on this machine, 0 when the
/// parent is not accel-run's launcher.
LockHolder this_holder(int64_t local_ranks);

/// The content of run.lock.
std::string to_text(const LockHolder& holder);
/// Reads to_text(); unknown fields stay at their defaults.
LockHolder lock_holder_in(const std::string& text);

/// Whether the holder is on this machine and about to release the lock: it or its launcher has
/// ended or is ending, or one of the launcher's ranks is, after which the launcher ends all.
bool is_ending(const LockHolder& holder);

}  // namespace accel
