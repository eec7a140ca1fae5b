// Reading of the section `submit`, with checks that concern several of its values, or one target.
#pragma once

#include "runner/submit/submit_section.h"

namespace accel {

/// Reads and checks the section: reports what the scheduler or the job's script would not take to
/// `problems`, at the keys that have it.
SubmitSection read_submit(const Node& section, Diagnostics& problems);

}  // namespace accel
