// What a run's profile says, for its report.
#pragma once

#include <string>

namespace accel {

/// The costliest operators of rank 0 and its memory while it was profiled: of the steps that were
/// profiled last, and which other ones there are. Empty where the run's folder has no profile that
/// can be read.
std::string profile_section(const std::string& run_dir);

}  // namespace accel
