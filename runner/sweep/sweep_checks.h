// What is wrong with a sweep beyond the types of its values.
#pragma once

#include "runner/sweep/sweep_file.h"

namespace accel {

/// `node` is the tree that `sweep` was read from; what is wrong goes to `reading.problems`.
void check_sweep(const SweepOptions& sweep, const Node& node, Reading& reading);

}  // namespace accel
