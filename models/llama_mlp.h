// The gated MLP of a Llama, and a mixture of them.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/api/model.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/expert_routing.h"
#include "models/layers/tensor_parallel.h"
#include "models/llama_options.h"

namespace accel {

/// A linear layer, registered in `in`.
AdaptedLinear llama_linear(torch::nn::Module& in, const char* name, int64_t inputs, int64_t outputs,
                           bool bias);

/// SwiGLU, or with another activation.
class LlamaMlp final : public torch::nn::Module {
 public:
  /// With `expert`, forward() leaves the sum over `ranks` to the layer of experts.
  LlamaMlp(const LlamaOptions& options, int64_t inner, const TensorRanksPtr& ranks, bool expert);
  /// [..., hidden_size] to the same.
  at::Tensor forward(const at::Tensor& inputs);

 private:
  HfActivation activation_;
  TensorRanksPtr ranks_;  ///< null in an expert
  AdaptedLinear gate_proj_{nullptr}, up_proj_{nullptr}, down_proj_{nullptr};
  AdaptedLinear gate_up_proj_{nullptr};  ///< instead of the first two
};

/// Experts, a shared one of all tokens, and their router, which computes in float32. Under tensor
/// parallelism all ranks route all tokens; each computes a part of the sum that is the output, and
/// so of the gradients.
class LlamaExperts final : public torch::nn::Module {
 public:
  LlamaExperts(const LlamaOptions& options, const ModelContext& context);
  /// [batch, length, hidden_size] to the same.
  at::Tensor forward(const at::Tensor& inputs, const LoadBalance& balance);

  /// float32 [experts]: the tokens of each since the last change_bias().
  const at::Tensor& load() const { return load_; }
  /// `load`: of all ranks.
  void change_bias(const at::Tensor& load);

 private:
  /// [tokens, hidden_size] to the same.
  at::Tensor shared_output(const at::Tensor& tokens);

  MoeOptions moe_;
  std::shared_ptr<const ExpertRanks> ranks_;
  TensorRanksPtr tensor_;
  AdaptedLinear gate_{nullptr};
  std::vector<std::shared_ptr<LlamaMlp>> experts_;
  std::shared_ptr<LlamaMlp> shared_expert_;  ///< null: none
  AdaptedLinear shared_expert_gate_{nullptr};
  at::Tensor bias_, load_;  ///< buffers; undefined without a bias
};

}  // namespace accel
