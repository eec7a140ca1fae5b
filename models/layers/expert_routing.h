// Routing of tokens to experts, and the loss that balances their load.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/api/context_parallel.h"
#include "core/api/expert_parallel.h"

namespace accel {

/// The experts of each token, of T tokens and k experts per token. Every token reaches all its
/// experts: none has a capacity.
struct ExpertRouting {
  at::Tensor order;    ///< int64 [T * k]: choices token * k + i by expert, ascending for each
  at::Tensor slots;    ///< int64 [T * k]: position of each choice in `order`
  at::Tensor weights;  ///< float32 [T, k], with autograd
  std::vector<int64_t> counts = {};  ///< tokens of each expert; their sum is T * k
};

/// How a layer chooses experts.
struct ExpertChoice {
  int64_t k;  ///< experts of a token: those with the highest probabilities
  /// float32 [experts]: added to the probabilities for the choice, not for the weights (Wang et
  /// al., "Auxiliary-Loss-Free Load Balancing Strategy", 2024); undefined: 0.
  at::Tensor bias = {};
  /// float32 [experts], to which LoadBalance adds the counted tokens of each expert; undefined: not
  /// counted.
  at::Tensor load = {};
};

/// The experts by `choice` of probabilities, in float32 [T, experts]. `normalize`: the weights of a
/// token have the sum 1 (Jiang et al., "Mixtral of Experts", 2024).
ExpertRouting route_to_experts(const at::Tensor& probabilities, const ExpertChoice& choice,
                               bool normalize);

/// Maps the tokens of an expert, [n, width]. It is called for n = 0 too: all experts have gradients
/// on all ranks.
using ExpertFunction = std::function<at::Tensor(size_t expert, const at::Tensor& rows)>;

/// The weighted sum of a token's experts, [T, width] like `x`. With `ranks`, `expert` is called for
/// the experts of this rank, with the tokens of all of them; null: for all experts.
at::Tensor mix_experts(const at::Tensor& x, const ExpertRouting& routing,
                       const ExpertFunction& expert, const ExpertRanks* ranks = nullptr);

/// The other ranks of a pass.
struct BalanceRanks {
  int64_t tensor = 1;  ///< that have the same tokens, and sum the gradients
  /// That have other tokens of the same sequences, and outlive the pass; each gets an equal part of
  /// the loss. Null: none.
  const ContextRanks* context = nullptr;
  /// Sums of the layers of preceding pipeline stages; undefined: none.
  at::Tensor sums = {};
};

/// The load-balancing loss of one forward pass, over all its layers: experts * sum over experts of
/// the share of tokens that reach it, times its mean probability (Fedus et al., "Switch
/// Transformers", 2022, equations 4 to 6, as transformers computes it). The share of tokens is
/// constant in the backward pass. Copies refer to the same pass, which outlives the autograd graph.
class LoadBalance {
 public:
  /// Without a loss.
  LoadBalance() = default;
  /// `mask`: float32 [T], 0 for tokens that do not count, such as padding; undefined: all count.
  LoadBalance(double coefficient, const at::Tensor& mask, const BalanceRanks& ranks = {});

  /// Adds a layer. Returns the probabilities, to route by: their backward pass adds the gradient
  /// of the loss. A layer that is computed again for its backward pass is not added twice.
  at::Tensor add_layer(const at::Tensor& probabilities, const ExpertChoice& choice) const;

  /// Ends the forward pass. `output` depends on all layers; its new value takes its place. The
  /// loss, times the coefficient, is a 0-d float32 tensor with autograd.
  struct Result {
    at::Tensor output, loss;
  };
  Result finish(const at::Tensor& output) const;

  /// Ends the part of the forward pass in a pipeline stage that is not the last one.
  void end_stage() const;
  /// float32 [2 * experts + 1]: the sums of the layers so far; undefined before the first one.
  at::Tensor sums() const;
  /// float32 [experts], of the loss: see StageLoss::gradient().
  at::Tensor gradient() const;
  void set_gradient(const at::Tensor& gradient) const;

  struct State;

 private:
  std::shared_ptr<State> state_;  ///< null: no loss
};

/// Tokens of each expert of each layer, float32 [layers, experts], as multiples of the layer's
/// mean, by names of metrics: the extremes, and each expert's mean over the layers.
std::map<std::string, double> relative_loads(const at::Tensor& loads);

}  // namespace accel
