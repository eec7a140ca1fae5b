// Division of a model's blocks into pipeline stages.
#pragma once

#include <cstdint>
#include <vector>

namespace accel {

/// The number of consecutive blocks of each stage, at least one, so that the most expensive stage
/// is as cheap as possible, and of such divisions the most even one. `costs` has the cost of each
/// block, that of the layers before and after all blocks included. Needs 1 <= stages <= blocks.
std::vector<int64_t> balance_blocks(const std::vector<double>& costs, int64_t stages);

}  // namespace accel
