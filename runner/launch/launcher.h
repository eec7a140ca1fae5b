// The launcher: starts the ranks of this machine as processes and supervises them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace accel {

struct LaunchRequest {
  std::vector<std::string> argv;  ///< of a rank, the program's name first; usually this process's
  std::string program;            ///< the executable; empty: this one
  int64_t local_ranks = 1;        ///< on each machine
  int64_t num_machines = 1;
  int64_t machine_rank = 0;
  std::string main_process_ip;               ///< unused on one machine
  std::optional<int64_t> main_process_port;  ///< none: a free port, on one machine
  int64_t max_restarts = 0;
  int64_t min_machines = 1;  ///< with which a run of `num_machines` may continue
  int64_t monitor_interval_ms = 200;
  std::string job_token;  ///< of all machines; empty: none
  int64_t timeout_seconds = 600;
  int64_t join_timeout_seconds = 120;
  std::string log_dir;  ///< for rank-<r>.out of ranks with output, once the folder exists
  bool json = false;    ///< report failures as JSON
  /// The place of each global rank in the mesh, "pp 1, tp 0", for reports of failures; may be
  /// empty.
  std::vector<std::string> places;
  std::string resume_command;  ///< for the hint of a failure
};

/// Runs the ranks until the last has ended and returns the exit code: 0, 75 after a request to save
/// and stop, else the code of the first cause, which is reported on standard error. SIGINT,
/// SIGTERM, SIGHUP and SIGUSR1 are forwarded once; a second one kills all ranks. No rank outlives
/// this call, or this process.
///
/// A rank calls find_rank(), BoardWriter::open() and find_launcher_channel(). It leads a process
/// group, reads /dev/null, and starts with those four signals blocked. Rank 0 prints to this
/// process's standard output.
///
/// On several machines with restarts, the launchers are connected: a failure on one machine stops
/// and restarts the ranks of all, see MachineGroup.
///
/// Throws Error before any rank is started, or when none can be. Call it from the main thread:
/// ranks die with the thread that started them.
int launch(const LaunchRequest& request);

}  // namespace accel
