// Starts the ranks of this machine as processes and answers for how they end.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace accel {

struct LaunchRequest {
  std::vector<std::string> argv;  ///< of a rank, its name first; as a rule this process's own
  std::string program;            ///< what to execute; empty: this executable
  int64_t local_ranks = 1;        ///< on this machine; as many on every other
  int64_t num_machines = 1;
  int64_t machine_rank = 0;
  std::string main_process_ip;               ///< unused on one machine
  std::optional<int64_t> main_process_port;  ///< none: a free one, on one machine
  int64_t max_restarts = 0;
  int64_t timeout_seconds = 600;
  int64_t join_timeout_seconds = 120;
  std::string log_dir;     ///< gets rank-<r>.out of ranks that print, once it is there
  bool json = false;       ///< the report of a failure is for programs
  std::string go_on_with;  ///< the command that goes on from the last checkpoint, for the hint
};

/// Runs the ranks until the last has ended and returns the exit code: 0, 75 when all were asked to
/// save and stop, else that of the first cause, which is reported on standard error. SIGINT,
/// SIGTERM, SIGHUP and SIGUSR1 are passed on once; a second one ends all. No rank outlives this
/// call, or this process.
///
/// A rank finds its place with find_rank(), a board with BoardWriter::open() and the rest with
/// find_link(). It is in a process group of its own, reads /dev/null, and has those four signals
/// blocked until it unblocks them. Rank 0 prints to this process's standard output.
///
/// Throws Error before any rank is started, or when none can be. Call it from the main thread:
/// ranks die with the thread that started them.
int launch(const LaunchRequest& request);

}  // namespace accel
