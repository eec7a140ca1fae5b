// Durations of other trainers as those of recipes.
#pragma once

#include <string>

namespace accel {

/// "500 steps".
std::string steps_text(double steps);

/// "500 steps", or a share of the run below 1.
std::string interval_text(double value);

/// "0.25 epochs".
std::string epochs_text(double count);

}  // namespace accel
