// Something the loop can train.
#pragma once

#include "core/batch.h"
#include "core/data_shape.h"

namespace torch::nn {
class Module;
}

namespace accel {

/// What a model's constructor is told besides its options: the data it will see, for `auto` sizes.
struct ModelContext {
  DataShape data;
};

/// Implementations live in models/ or in a plugin. Modules are built by statement in PyTorch's
/// order, so that a seed gives the weights PyTorch would give.
class Model {
 public:
  virtual ~Model() = default;

  /// From a batch's inputs to logits or predictions, [batch, ...].
  virtual at::Tensor forward(const at::Tensor& inputs) = 0;

  /// As forward(), and what the tasks call: of a batch whose samples may differ in length or tell
  /// texts apart. The rows' fill must not change what comes out for the tokens before it. That
  /// holds of itself for a causal model, which sees only what lies before a token; any other one
  /// that takes such samples overrides this and masks by `batch.lengths`.
  virtual at::Tensor forward_batch(const Batch& batch) { return forward(batch.inputs); }

  /// The parameters and buffers, for the optimizer, the checkpoint and the strategy.
  virtual torch::nn::Module& module() = 0;

  /// The task a recipe gets when it names none.
  virtual const char* default_task() const = 0;
};

/// A model that looks at more of a batch than its inputs: it overrides forward_batch() alone.
class BatchModel : public Model {
 public:
  at::Tensor forward(const at::Tensor& inputs) final {
    Batch batch;
    batch.inputs = inputs;
    return forward_batch(batch);
  }
  at::Tensor forward_batch(const Batch& batch) override = 0;
};

/// A model whose output is a linear map of hidden states onto a vocabulary, so that a task can
/// compute the loss without holding all logits at once.
class LanguageModel : public Model {
 public:
  /// [batch, context] token ids to [batch, context, width]. Causal: a row's fill may go in like any
  /// token, since nothing before it sees it and no target asks for what comes behind.
  virtual at::Tensor hidden(const at::Tensor& tokens) = 0;
  /// [vocab, width]; logits are hidden @ weight^T, without a bias.
  virtual at::Tensor head_weight() = 0;
};

/// A model that makes samples out of noise: forward() takes [batch, latent()], standard normal.
class Generator : public Model {
 public:
  virtual int64_t latent() const = 0;
};

}  // namespace accel
