// Models: trainable modules and their forward passes.
#pragma once

#include "core/api/batch.h"
#include "core/api/data_shape.h"
#include "core/api/expert_parallel.h"
#include "core/api/tensor_parallel.h"

namespace torch::nn {
class Module;
}

namespace accel {

/// Constructor arguments of a model besides its options: the data's schema, for `auto` sizes.
struct ModelContext {
  DataShape data;
  /// The ranks that divide the model's layers, for models that derive from TensorParallel; null:
  /// one process.
  std::shared_ptr<const TensorRanks> tensor = nullptr;
  /// The ranks that divide the model's experts, for models that derive from ExpertParallel; null:
  /// one process.
  std::shared_ptr<const ExpertRanks> experts = nullptr;
};

/// Implementations live in models/ or in a plugin. They create modules in PyTorch's order, one per
/// statement, so that a seed gives PyTorch's weights.
class Model {
 public:
  virtual ~Model() = default;

  /// From a batch's inputs to logits or predictions, [batch, ...].
  virtual at::Tensor forward(const at::Tensor& inputs) = 0;

  /// forward() of a batch with padding or segments, as the tasks call it. Padding must not change
  /// the outputs of the tokens before it: causal models satisfy this, others override this method
  /// and mask by `batch.lengths`.
  virtual at::Tensor forward_batch(const Batch& batch) { return forward(batch.inputs); }

  /// The parameters and buffers, for the optimizer, the checkpoint and the strategy.
  virtual torch::nn::Module& module() = 0;

  /// The task of a recipe that names none.
  virtual const char* default_task() const = 0;
};

/// A model that reads more of a batch than its inputs: it overrides forward_batch() only.
class BatchModel : public Model {
 public:
  at::Tensor forward(const at::Tensor& inputs) final {
    Batch batch;
    batch.inputs = inputs;
    return forward_batch(batch);
  }
  at::Tensor forward_batch(const Batch& batch) override = 0;
};

/// A model with a linear output layer over a vocabulary, so that a task can compute the loss
/// without materializing all logits.
class LanguageModel : public Model {
 public:
  /// [batch, context] token ids to [batch, context, width]. Causal: padding at the end of a row
  /// does not change the positions before it.
  virtual at::Tensor hidden(const at::Tensor& tokens) = 0;
  /// [vocab, width]; logits are hidden @ weight^T, without a bias.
  virtual at::Tensor head_weight() = 0;
};

/// A generator of samples from noise: forward() takes [batch, latent()], standard normal.
class Generator : public Model {
 public:
  virtual int64_t latent() const = 0;
};

}  // namespace accel
