// A block of a Llama: grouped-query attention with rotary positions, then a gated MLP or experts.
#pragma once

#include <torch/nn/module.h>

#include <cstdint>
#include <memory>

#include "core/api/block.h"
#include "core/api/model.h"
#include "kernels/residual_norm.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/context_parallel.h"
#include "models/layers/decoding.h"
#include "models/layers/expert_routing.h"
#include "models/layers/rope.h"
#include "models/layers/self_attention.h"
#include "models/layers/tensor_parallel.h"
#include "models/llama_mlp.h"
#include "models/llama_options.h"

namespace accel {

/// RMSNorm (Zhang and Sennrich 2019) with a weight, or 1 + weight in float32.
class LlamaNorm final : public torch::nn::Module {
 public:
  LlamaNorm(int64_t width, const LlamaOptions& options);
  /// [..., width] to the same.
  at::Tensor forward(const at::Tensor& x);
  /// residual_norm() with this norm.
  ResidualNorm after(const at::Tensor& x, const std::optional<at::Tensor>& branch);

 private:
  at::Tensor weight_;
  double epsilon_;
  bool is_zero_centered_;
};

class LlamaAttention final : public torch::nn::Module {
 public:
  LlamaAttention(const LlamaOptions& options, int64_t layer, const TensorRanksPtr& ranks);
  /// [batch, length, hidden_size] to the same. `seen`: of cached decoding, or null.
  at::Tensor forward(const at::Tensor& inputs, const RopeTurns& turns, const VisibleKeys& visible,
                     LayerCache* seen);

 private:
  /// [batch, length, heads x width] to [batch, heads, length, width], with a norm per head.
  at::Tensor by_head(const at::Tensor& x, const std::shared_ptr<LlamaNorm>& norm) const;

  struct Projections {
    at::Tensor query, key, value;  ///< [batch, length, heads x width]
  };
  Projections project(const at::Tensor& x);
  /// Of one layer. Ranks of tensor parallelism divide it; with fewer key heads than heads, whose
  /// blocks of rows differ in size, each has the whole layer and computes its own rows.
  Projections project_fused(const at::Tensor& x);

  int64_t width_;
  double dropout_;
  int64_t heads_, groups_;  ///< of all ranks
  AttentionScores scores_;
  TensorRanksPtr ranks_;
  AdaptedLinear q_proj_{nullptr}, k_proj_{nullptr}, v_proj_{nullptr}, o_proj_{nullptr};
  AdaptedLinear qkv_proj_{nullptr};  ///< instead of the first three
  std::shared_ptr<LlamaNorm> q_norm_, k_norm_;
};

/// Rotary positions and visible keys of layers with and without a window.
struct LlamaPass {
  RopeTurns turns, local_turns;
  VisibleKeys visible, local_visible;
};

class LlamaBlock final : public torch::nn::Module, public Block {
 public:
  LlamaBlock(const LlamaOptions& options, int64_t layer, const ModelContext& context);
  /// [batch, length, hidden_size] to the same.
  at::Tensor forward(const at::Tensor& inputs, const RopeTurns& turns, const VisibleKeys& visible,
                     LayerCache* seen, const LoadBalance& balance);

  /// Null in a block without experts.
  LlamaExperts* experts() const { return experts_.get(); }

 private:
  TensorRanksPtr ranks_;
  std::shared_ptr<LlamaAttention> attention_;
  std::shared_ptr<LlamaMlp> mlp_;          ///< or
  std::shared_ptr<LlamaExperts> experts_;  ///< instead of it
  std::shared_ptr<LlamaNorm> before_, between_;
  std::shared_ptr<LlamaNorm> after_attention_, after_mlp_;  ///< of `sandwich_norms`
  double dropout_;
};

}  // namespace accel
