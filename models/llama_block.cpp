#include "models/llama_block.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>

#include <cmath>

#include "kernels/rms_norm.h"

namespace accel {

LlamaNorm::LlamaNorm(int64_t width, const LlamaOptions& options)
    : epsilon_(options.norm_eps), is_zero_centered_(options.zero_centered_gamma) {
  weight_ =
      register_parameter("weight", is_zero_centered_ ? at::zeros({width}) : at::ones({width}));
}

at::Tensor LlamaNorm::forward(const at::Tensor& x) {
  if (!is_zero_centered_) return rms_norm(x, weight_, epsilon_);
  const at::Tensor wide = x.to(at::kFloat);
  const at::Tensor scale = wide.pow(2).mean(-1, /*keepdim=*/true).add(epsilon_).rsqrt();
  return wide.mul(scale).mul(weight_.to(at::kFloat).add(1.0)).to(x.scalar_type());
}

ResidualNorm LlamaNorm::after(const at::Tensor& x, const std::optional<at::Tensor>& branch) {
  if (!is_zero_centered_) {
    return residual_norm(x, branch, {.is_rms = true, .weight = weight_, .eps = epsilon_});
  }
  const at::Tensor sum = branch ? x.add(*branch) : x;
  return {sum, forward(sum)};
}

LlamaAttention::LlamaAttention(const LlamaOptions& options, int64_t layer,
                               const TensorRanksPtr& ranks)
    : width_(options.per_head()),
      dropout_(options.attention_dropout),
      heads_(options.num_heads),
      groups_(options.groups()),
      ranks_(ranks) {
  if (options.query_pre_attn_scalar) scores_.scale = 1 / std::sqrt(*options.query_pre_attn_scalar);
  scores_.softcap = options.attn_logit_softcapping.value_or(0);
  if (options.slides(layer)) scores_.window = *options.sliding_window;
  const int64_t all = options.num_heads * width_, shared = options.groups() * width_;
  const bool bias = options.attention_bias != LlamaBias::kNone;
  const bool bias_of_output = options.attention_bias == LlamaBias::kAll;
  if (options.fused_projections) {
    o_proj_ = llama_linear(*this, "o_proj", all, options.hidden_size, false);
    qkv_proj_ = llama_linear(*this, "qkv_proj", options.hidden_size, all + 2 * shared, false);
  } else {
    q_proj_ = llama_linear(*this, "q_proj", options.hidden_size, all, bias);
    k_proj_ = llama_linear(*this, "k_proj", options.hidden_size, shared, bias);
    v_proj_ = llama_linear(*this, "v_proj", options.hidden_size, shared, bias);
    o_proj_ = llama_linear(*this, "o_proj", all, options.hidden_size, bias_of_output);
  }
  o_proj_->divide_inputs(ranks);
  if (!options.qk_norm) return;
  q_norm_ = register_module("q_norm", std::make_shared<LlamaNorm>(width_, options));
  k_norm_ = register_module("k_norm", std::make_shared<LlamaNorm>(width_, options));
}

LlamaAttention::Projections LlamaAttention::project(const at::Tensor& x) {
  if (qkv_proj_) return project_fused(x);
  return {q_proj_->forward(x), own_head(ranks_, k_proj_->forward(x), groups_, width_),
          own_head(ranks_, v_proj_->forward(x), groups_, width_)};
}

LlamaAttention::Projections LlamaAttention::project_fused(const at::Tensor& x) {
  const int64_t all = heads_ * width_, ranks = ranks_ ? ranks_->size() : 1;
  const auto split = [](const at::Tensor& of, int64_t dim, int64_t query) -> Projections {
    const int64_t key = (of.size(dim) - query) / 2;
    return {of.narrow(dim, 0, query), of.narrow(dim, query, key), of.narrow(dim, query + key, key)};
  };
  if (!ranks_ || groups_ == heads_) return split(qkv_proj_->forward(x), 2, all / ranks);
  const auto own_parts = [&](const at::Tensor& of, int64_t dim) -> Projections {
    const Projections of_all = split(of, dim, all);
    return {own_heads(*ranks_, of_all.query, dim, {heads_, width_}),
            own_heads(*ranks_, of_all.key, dim, {groups_, width_}),
            own_heads(*ranks_, of_all.value, dim, {groups_, width_})};
  };
  if (!qkv_proj_->is_plain()) return own_parts(qkv_proj_->forward(x), 2);
  const Projections rows = own_parts(qkv_proj_->weight, 0);
  return split(at::linear(x, at::cat({rows.query, rows.key, rows.value})), 2, all / ranks);
}

at::Tensor LlamaAttention::forward(const at::Tensor& inputs, const RopeTurns& turns,
                                   const VisibleKeys& visible, LayerCache* seen) {
  const Projections x = project(enter(ranks_, inputs));
  const at::Tensor query = Rope::turn(by_head(x.query, q_norm_), turns);
  const at::Tensor key = Rope::turn(by_head(x.key, k_norm_), turns);
  const at::Tensor value = by_head(x.value, nullptr);
  AttentionScores scores = scores_;
  scores.dropout = is_training() ? dropout_ : 0.0;
  const auto stream = own_random_stream(ranks_, query.device(), scores.dropout > 0);
  const at::Tensor y =
      seen ? seen->attend(query, key, value, scores_) : attend(query, key, value, visible, scores);
  return o_proj_->forward(y.transpose(1, 2).flatten(2));
}

at::Tensor LlamaAttention::by_head(const at::Tensor& x,
                                   const std::shared_ptr<LlamaNorm>& norm) const {
  const at::Tensor heads = x.unflatten(2, {-1, width_});
  return (norm ? norm->forward(heads) : heads).transpose(1, 2);
}

LlamaBlock::LlamaBlock(const LlamaOptions& options, int64_t layer, const ModelContext& context)
    : ranks_(context.tensor), dropout_(options.residual_dropout) {
  const TensorRanksPtr& ranks = context.tensor;
  attention_ =
      register_module("self_attn", std::make_shared<LlamaAttention>(options, layer, ranks));
  if (options.moe.has_experts(layer)) {
    experts_ = register_module("mlp", std::make_shared<LlamaExperts>(options, context));
  } else {
    mlp_ = register_module("mlp", std::make_shared<LlamaMlp>(options, options.inner(), ranks,
                                                             /*expert=*/false));
  }
  const auto norm = [&](const char* name) {
    return register_module(name, std::make_shared<LlamaNorm>(options.hidden_size, options));
  };
  before_ = norm("input_layernorm");
  if (!options.sandwich_norms) {
    between_ = norm("post_attention_layernorm");
    return;
  }
  after_attention_ = norm("post_attention_layernorm");
  between_ = norm("pre_feedforward_layernorm");
  after_mlp_ = norm("post_feedforward_layernorm");
}

at::Tensor LlamaBlock::forward(const at::Tensor& inputs, const RopeTurns& turns,
                               const VisibleKeys& visible, LayerCache* seen,
                               const LoadBalance& balance) {
  const auto added = [&](const at::Tensor& y, const std::shared_ptr<LlamaNorm>& norm) {
    return residual_dropout(ranks_, norm ? norm->forward(y) : y, is_training() ? dropout_ : 0.0);
  };
  const ResidualNorm first = before_->after(inputs, {});
  const at::Tensor attended = attention_->forward(first.normed, turns, visible, seen);
  const at::Tensor branch = added(attended, after_attention_);
  if (experts_) {  // the router needs a norm of the stream's precision
    const at::Tensor x = first.sum.add(branch);
    return x.add(added(experts_->forward(between_->forward(x), balance), after_mlp_));
  }
  const ResidualNorm second = between_->after(first.sum, branch);
  return second.sum.add(added(mlp_->forward(second.normed), after_mlp_));
}

}  // namespace accel
