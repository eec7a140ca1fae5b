// How warn() writes to the terminal.
#pragma once

namespace accel {

/// From now on as {"severity": "warning", "message": ...}, one object a line, or as text again. A
/// log file has text in any case.
void warn_as_json(bool on = true);

}  // namespace accel
