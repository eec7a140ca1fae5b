// The report of a failed launch: its cause, the state of the ranks and a hint.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/launch/status_board.h"
#include "runner/launch/supervisor.h"

namespace accel {

/// Snapshot of a rank.
struct RankSnapshot {
  int64_t pid = 0;
  char state = 0;  ///< the kernel's letter; 0: ended
  RankEnd end;     ///< valid once it has ended
  RankStatus status;
  double silent_seconds = 0;  ///< since its last heartbeat
};

struct FailureContext {
  Cause cause;
  int64_t first_rank = 0;  ///< the global rank of this machine's first rank
  std::string host;
  std::vector<std::string> places;      ///< of all ranks in the mesh, "pp 1, tp 0"; may be empty
  std::vector<RankSnapshot> ranks;      ///< of a hang, when it was detected
  std::vector<std::string> last_lines;  ///< output of the failed rank, if not shown yet
  std::string log_path;                 ///< file with its whole output; may be empty
  bool out_of_memory = false;           ///< the kernel killed a process
  std::string resume_command;           ///< may be empty
};

/// Whether the rank that ended has completed the run, but missed bounds of `expect`, which it
/// printed.
bool missed_expectations(const FailureContext& context);

/// Lines for the terminal, the cause first: "error: ...", or an error of a rank with its own
/// position, such as "a.yaml:1:1: error: ...".
std::string report_text(const FailureContext& context);

/// The same as a line of JSON: severity, message, hint and, where known, `rank`, the state of the
/// `ranks` and `last_lines`. These are added to an error that a rank reported as JSON.
std::string report_json(const FailureContext& context, const char* severity);

/// A warning, or an error with a hint, as a line of JSON.
std::string warning_json(const std::string& message);
std::string error_json(const std::string& message, const std::string& hint);

/// The text (not JSON) that `rank`, or every rank for -1, gave to BoardWriter::fail(), with
/// "error: " at its start or after its position.
std::string rank_error_text(const std::string& text, int64_t rank);

}  // namespace accel
