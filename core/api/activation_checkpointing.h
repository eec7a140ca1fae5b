// Activation checkpointing: less memory for more computation.
#pragma once

namespace accel {

/// What a block stores of its forward pass for the backward pass, which recomputes the rest.
enum class ActivationCheckpointing {
  kNone,       ///< all activations
  kSelective,  ///< its input, and outputs that take long to compute; see StoredOutputs
  kBlocks,     ///< its input
};

}  // namespace accel
