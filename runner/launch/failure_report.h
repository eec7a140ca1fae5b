// What the launcher says when ranks had to end.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "runner/launch/status_board.h"
#include "runner/launch/supervisor.h"

namespace accel {

/// One rank as it was seen at some moment.
struct RankSight {
  int64_t pid = 0;
  char state = 0;  ///< the kernel's letter; 0: it has ended
  RankEnd end;     ///< how, if it has
  RankStatus status;
  double silent_seconds = 0;  ///< since its last heartbeat
};

struct FailureFacts {
  Cause cause;
  int64_t first_rank = 0;  ///< the number of this machine's first rank among all
  std::string host;
  std::vector<RankSight> ranks;         ///< of a hang, as they were when it was found
  std::vector<std::string> last_lines;  ///< that the rank of the cause printed, if not yet shown
  std::string log_path;                 ///< where the rest of it is; may be empty
  bool out_of_memory = false;           ///< the kernel ended a process for that
  std::string go_on_with;               ///< may be empty
};

/// Lines, each with its end, the first of them the cause without "error: " but for a text that a
/// rank gave with its own place, such as "a.yaml:1:1: error: ...".
std::string report_text(const FailureFacts& facts);

/// The same for programs: a line of JSON with severity, message and hint, and where they are known
/// the rank, what each of the `ranks` did, and the rank's `last_lines`. What a rank gave as JSON
/// itself stays as it is but for those.
std::string report_json(const FailureFacts& facts, const char* severity);

/// A line of JSON for something that is no failure.
std::string warning_json(const std::string& message);

/// Text, but no JSON, as given to BoardWriter::fail(), of `rank` or, for -1, of all ranks alike:
/// with "error: " in front or after its place, and the line's end.
std::string rank_error_text(const std::string& text, int64_t rank);

}  // namespace accel
