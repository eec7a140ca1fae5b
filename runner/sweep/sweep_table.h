// A sweep's trials for a terminal.
#pragma once

#include <string>
#include <vector>

#include "runner/sweep/stages.h"
#include "runner/sweep/trials.h"

namespace accel {

/// A line for each trial, as they would be run, under a head that names the keys.
std::vector<std::string> trial_lines(const std::vector<Trial>& trials);

/// The same with how each stands, the best first.
std::vector<std::string> ranking_lines(const SweepOptions& sweep, const std::vector<Trial>& trials,
                                       const SweepProgress& progress);

}  // namespace accel
