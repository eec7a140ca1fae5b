// The questions of `accel-run config`.
#pragma once

#include <iosfwd>

#include "runner/launch/config_text.h"

namespace accel {

/// Asks on `out` and reads a line for each answer from `in`: an empty one is the default in
/// brackets, a bad one is asked for again. `gpus` is how many this machine has, which is what is
/// proposed. Throws Error when `in` ends before the last answer.
ConfigAnswers ask_config(std::istream& in, std::ostream& out, int64_t gpus);

}  // namespace accel
