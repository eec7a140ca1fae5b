// Round numbers along an axis.
#pragma once

#include <vector>

namespace accel {

/// The multiples of 1, 2 or 5 times a power of ten from `low` to `high`, about `count` of them.
/// Empty unless low < high and both are finite.
std::vector<double> ladder(double low, double high, int count);

/// The powers of ten from `low` to `high`, both above 0; where there are fewer than two, their
/// doubles and fives as well.
std::vector<double> power_ladder(double low, double high);

}  // namespace accel
