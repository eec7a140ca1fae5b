// Activation checkpointing: activations are recomputed in the backward pass instead of being
// stored.
#pragma once

#include <cstdint>
#include <memory>

#include "core/api/block.h"

namespace accel {

class Model;

/// Whether this thread recomputes activations; statistics must not be updated then.
bool is_recomputing();

/// Sets `mode` for all blocks of the model, with their inputs in `inputs` (null: on their device),
/// and returns their number. With a GPU, call it before the first backward pass: it replaces
/// PyTorch's engine, which starts its threads once.
int64_t checkpoint_blocks(Model& model, const std::shared_ptr<BlockInputs>& inputs = nullptr,
                          ActivationCheckpointing mode = ActivationCheckpointing::kBlocks);

}  // namespace accel
