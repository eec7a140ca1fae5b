// Blocks: the units into which a model divides, such as transformer layers.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "core/api/activation_checkpointing.h"

namespace accel {

/// Calls `compute` and stores only `compute`, its captures and, if selective, its StoredOutputs for
/// the backward pass, which calls it again with the same random numbers and autocast state;
/// gradients have the same bits. `compute` must be deterministic. As torch.utils.checkpoint without
/// reentrance (Chen et al., "Training Deep Nets with Sublinear Memory Cost", 2016).
__attribute__((visibility("default"))) at::Tensor checkpoint(
    std::function<at::Tensor()> compute,
    ActivationCheckpointing mode = ActivationCheckpointing::kBlocks);

/// Storage for the inputs of checkpointed blocks, outside of their device.
class BlockInputs {
 public:
  virtual ~BlockInputs() = default;
  /// The result returns `input` until the next call of store(), and a detached copy on the same
  /// device afterwards, on any thread; several calls are allowed.
  virtual std::function<at::Tensor()> store(const at::Tensor& input) = 0;
};

/// checkpoint() of `compute(input)` with `input` in `inputs`; null: on its device.
__attribute__((visibility("default"))) at::Tensor checkpoint(
    BlockInputs* inputs, const at::Tensor& input,
    std::function<at::Tensor(const at::Tensor&)> compute,
    ActivationCheckpointing mode = ActivationCheckpointing::kBlocks);

/// Observes the forward pass of a block: sharding gathers the block's parameters before it and
/// frees them after it.
class BlockHooks {
 public:
  virtual ~BlockHooks() = default;
  virtual void before_forward() = 0;
  virtual void after_forward(const at::Tensor& output) = 0;
};

/// A block of a model that is divided into pipeline stages.
class BlockStage {
 public:
  virtual ~BlockStage() = default;
  /// The output of the stage before, which replaces the input of the model's first block; undefined
  /// on the first stage, which computes it.
  virtual at::Tensor received() = 0;
  /// Whether this pass runs the block on `input`; another stage's block is skipped.
  virtual bool enter(const at::Tensor& input) = 0;
  /// May throw to end the pass: the next block is on another stage.
  virtual void leave(const at::Tensor& output) = 0;
};

/// The unit of activation checkpointing, of sharding and of pipeline stages. A layer of a model
/// derives from torch::nn::Module and from it, and its model calls it by run_block();
/// `train.activation_checkpointing` and `accelerator.fsdp` then work for the model. With sharding
/// and mixed precision the weights of its linear layers and convolutions have autocast's type.
class Block {
 public:
  virtual ~Block() = default;
  void set_checkpointing(ActivationCheckpointing mode) { checkpointing_ = mode; }
  ActivationCheckpointing checkpointing() const { return checkpointing_; }
  /// Null: the input of a checkpointed block stays on its device.
  void set_inputs(std::shared_ptr<BlockInputs> inputs) { inputs_ = std::move(inputs); }
  BlockInputs* inputs() const { return inputs_.get(); }
  /// Null: none. They outlive the block's passes.
  void set_hooks(BlockHooks* hooks) { hooks_ = hooks; }
  BlockHooks* hooks() const { return hooks_; }
  /// Null: the model is not divided. It outlives the block's passes.
  void set_stage(BlockStage* stage) { stage_ = stage; }
  BlockStage* stage() const { return stage_; }

 private:
  ActivationCheckpointing checkpointing_ = ActivationCheckpointing::kNone;
  std::shared_ptr<BlockInputs> inputs_;
  BlockHooks* hooks_ = nullptr;
  BlockStage* stage_ = nullptr;
};

/// `block.forward(input, others...)` between the block's hooks, checkpointed if enabled for the
/// block. Block and tensors must not change until the backward pass.
template <class B, class... Others>
at::Tensor run_block(B& block, const at::Tensor& input, const Others&... others) {
  BlockStage* const stage = block.stage();
  if (stage && !stage->enter(input)) return input;
  BlockHooks* const hooks = block.hooks();
  if (hooks) hooks->before_forward();
  const ActivationCheckpointing mode = block.checkpointing();
  at::Tensor output =
      mode == ActivationCheckpointing::kNone
          ? block.forward(input, others...)
          : checkpoint(
                block.inputs(), input,
                [&block, others...](const at::Tensor& x) { return block.forward(x, others...); },
                mode);
  if (hooks) hooks->after_forward(output);
  if (stage) stage->leave(output);
  return output;
}

/// A model whose forward pass is a chain of blocks: the input of `first`, the blocks by run_block()
/// in order, each on the output of the one before and on nothing else that depends on parameters,
/// then the head. The input comes from chain_input(). `accelerator.parallelism.pp` divides such
/// models. Parameters registered before the blocks' are those of the input, other parameters
/// outside of blocks those of the head.
class BlockChain {
 public:
  virtual ~BlockChain() = default;
  /// In the order of a forward pass; each runs once.
  virtual std::vector<Block*> chain() = 0;
  /// The parameter that both the input and the head read; undefined: none.
  virtual at::Tensor tied_weight() { return {}; }
};

/// The blocks of a list of pointers, for BlockChain::chain().
template <class Pointers>
std::vector<Block*> block_chain(const Pointers& blocks) {
  std::vector<Block*> chain;
  for (const auto& block : blocks) chain.push_back(&*block);
  return chain;
}

/// The input of a chain that begins with `first`: `compute()`, where another stage does not.
template <class Compute>
at::Tensor chain_input(const Block& first, const Compute& compute) {
  at::Tensor received = first.stage() ? first.stage()->received() : at::Tensor();
  return received.defined() ? received : compute();
}

}  // namespace accel
