// Weights that a checkpoint replaces before anyone reads them.
#pragma once

namespace accel {

/// While it lives, tensors on the CPU that this thread would fill with normally or uniformly
/// distributed numbers keep what lies in their memory, and no generator goes on. GPT-2's 124
/// million weights take a second to draw.
class UndrawnWeights {
 public:
  UndrawnWeights();
  ~UndrawnWeights();
  UndrawnWeights(const UndrawnWeights&) = delete;
  UndrawnWeights& operator=(const UndrawnWeights&) = delete;
};

}  // namespace accel
