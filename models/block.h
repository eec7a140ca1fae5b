// Blocks: the parts of a model that can forget what they computed, to compute it again in the
// backward pass.
#pragma once

#include <torch/nn/module.h>

#include <functional>

#include "models/recompute.h"

namespace accel {

/// A module that its model runs by run_block(), so that recompute_blocks() reaches it.
class Block : public torch::nn::Module {
 public:
  void set_recomputed(bool on) { recomputed_ = on; }
  bool is_recomputed() const { return recomputed_; }

 private:
  bool recomputed_ = false;
};

/// `block.forward(inputs...)`, by recomputed() if that is switched on. The block and the tensors
/// must stay as they are until the backward pass.
template <class B, class... Inputs>
at::Tensor run_block(B& block, const Inputs&... inputs) {
  if (!block.is_recomputed()) return block.forward(inputs...);
  return recomputed([&block, inputs...] { return block.forward(inputs...); });
}

}  // namespace accel
