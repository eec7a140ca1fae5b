// Quiet terminal output of the log, apart from log.h, which plugins include.
#pragma once

namespace accel {

/// Turns the lines of say() on the terminal off or on; warnings are printed, and log files have
/// both.
void be_quiet(bool on = true);

}  // namespace accel
