// Blocks: the units into which a model divides, such as transformer layers.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

namespace accel {

/// Calls `compute` and stores only `compute` and its captures for the backward pass, which calls it
/// again with the same random numbers and autocast state; gradients have the same bits. `compute`
/// must be deterministic. As torch.utils.checkpoint without reentrance (Chen et al., "Training Deep
/// Nets with Sublinear Memory Cost", 2016).
__attribute__((visibility("default"))) at::Tensor checkpoint(std::function<at::Tensor()> compute);

/// The unit of activation checkpointing. A layer of a model derives from torch::nn::Module and from
/// it, and its model calls it by run_block(); `train.activation_checkpointing` then works for the
/// model.
class Block {
 public:
  virtual ~Block() = default;
  void set_checkpointed(bool on) { checkpointed_ = on; }
  bool is_checkpointed() const { return checkpointed_; }

 private:
  bool checkpointed_ = false;
};

/// `block.forward(inputs...)`, checkpointed if enabled for the block. Block and tensors must not
/// change until the backward pass.
template <class B, class... Inputs>
at::Tensor run_block(B& block, const Inputs&... inputs) {
  if (!block.is_checkpointed()) return block.forward(inputs...);
  return checkpoint([&block, inputs...] { return block.forward(inputs...); });
}

}  // namespace accel
