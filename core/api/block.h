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

/// Observes the forward pass of a block: sharding gathers the block's parameters before it and
/// frees them after it.
class BlockHooks {
 public:
  virtual ~BlockHooks() = default;
  virtual void before_forward() = 0;
  virtual void after_forward(const at::Tensor& output) = 0;
};

/// The unit of activation checkpointing and of sharding. A layer of a model derives from
/// torch::nn::Module and from it, and its model calls it by run_block();
/// `train.activation_checkpointing` and `accelerator.fsdp` then work for the model. With sharding
/// and mixed precision the weights of its linear layers and convolutions have autocast's type.
class Block {
 public:
  virtual ~Block() = default;
  void set_checkpointed(bool on) { checkpointed_ = on; }
  bool is_checkpointed() const { return checkpointed_; }
  /// Null: none. They outlive the block's passes.
  void set_hooks(BlockHooks* hooks) { hooks_ = hooks; }
  BlockHooks* hooks() const { return hooks_; }

 private:
  bool checkpointed_ = false;
  BlockHooks* hooks_ = nullptr;
};

/// `block.forward(inputs...)` between the block's hooks, checkpointed if enabled for the block.
/// Block and tensors must not change until the backward pass.
template <class B, class... Inputs>
at::Tensor run_block(B& block, const Inputs&... inputs) {
  BlockHooks* const hooks = block.hooks();
  if (hooks) hooks->before_forward();
  at::Tensor output = block.is_checkpointed()
                          ? checkpoint([&block, inputs...] { return block.forward(inputs...); })
                          : block.forward(inputs...);
  if (hooks) hooks->after_forward(output);
  return output;
}

}  // namespace accel
