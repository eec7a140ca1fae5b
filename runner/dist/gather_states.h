// What every rank holds of its own, brought to the first.
#pragma once

#include <vector>

#include "core/batch.h"
#include "runner/dist/communicator.h"

namespace accel {

/// The numbers and tensors of each rank, by rank, as copies; on other ranks than the first nothing.
/// Names, types and shapes may differ from rank to rank; texts are left out.
std::vector<StateDict> gather_states(Communicator& group, const StateDict& own);

}  // namespace accel
