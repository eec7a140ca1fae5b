// The end of a rank by an error.
#pragma once

#include <string>

#include "core/base/error.h"
#include "runner/launch/status_board.h"

namespace accel {

/// Gives the text of an error to the launcher; of JSON the lines that fit.
void report_to_launcher(BoardWriter& board, ExitCode code, const std::string& text, bool json);

/// Ends the process with the error's exit code, from any thread: others may be blocked forever. The
/// error goes to the launcher, or without one to standard error. Takes two seconds at most, also
/// when nobody reads standard error.
[[noreturn]] void end_rank(BoardWriter& board, const Error& error, bool json);

}  // namespace accel
