#include "models/llama_block.h"

#include <ATen/ops/ones.h>
#include <ATen/ops/rms_norm.h>

namespace accel {

LlamaNorm::LlamaNorm(int64_t width, double epsilon)
    : weight_(register_parameter("weight", at::ones({width}))), epsilon_(epsilon) {}

at::Tensor LlamaNorm::forward(const at::Tensor& x) {
  return at::rms_norm(x, weight_.sizes(), weight_, epsilon_);
}

LlamaAttention::LlamaAttention(const LlamaOptions& options, const TensorRanksPtr& ranks)
    : width_(options.per_head()),
      dropout_(options.attention_dropout),
      groups_(options.groups()),
      ranks_(ranks) {
  const int64_t all = options.num_heads * width_, shared = options.groups() * width_;
  const bool bias = options.attention_bias != LlamaBias::kNone;
  q_proj_ = llama_linear(*this, "q_proj", options.hidden_size, all, bias);
  k_proj_ = llama_linear(*this, "k_proj", options.hidden_size, shared, bias);
  v_proj_ = llama_linear(*this, "v_proj", options.hidden_size, shared, bias);
  o_proj_ = llama_linear(*this, "o_proj", all, options.hidden_size,
                         options.attention_bias == LlamaBias::kAll);
  o_proj_->divide_inputs(ranks);
  if (!options.qk_norm) return;
  q_norm_ = register_module("q_norm", std::make_shared<LlamaNorm>(width_, options.norm_eps));
  k_norm_ = register_module("k_norm", std::make_shared<LlamaNorm>(width_, options.norm_eps));
}

at::Tensor LlamaAttention::forward(const at::Tensor& inputs, const RopeTurns& turns,
                                   const VisibleKeys& visible, LayerCache* seen) {
  const at::Tensor x = enter(ranks_, inputs);
  const at::Tensor query = Rope::turn(by_head(q_proj_->forward(x), q_norm_), turns);
  const at::Tensor key =
      Rope::turn(by_head(own_head(ranks_, k_proj_->forward(x), groups_, width_), k_norm_), turns);
  const at::Tensor value = by_head(own_head(ranks_, v_proj_->forward(x), groups_, width_), nullptr);
  const double dropout = is_training() ? dropout_ : 0.0;
  const auto stream = own_random_stream(ranks_, x.device(), dropout > 0);
  const at::Tensor y =
      seen ? seen->attend(query, key, value) : attend(query, key, value, visible, dropout);
  return o_proj_->forward(y.transpose(1, 2).flatten(2));
}

at::Tensor LlamaAttention::by_head(const at::Tensor& x,
                                   const std::shared_ptr<LlamaNorm>& norm) const {
  const at::Tensor heads = x.view({x.size(0), x.size(1), -1, width_});
  return (norm ? norm->forward(heads) : heads).transpose(1, 2);
}

LlamaBlock::LlamaBlock(const LlamaOptions& options, int64_t layer, const ModelContext& context) {
  const TensorRanksPtr& ranks = context.tensor;
  attention_ = register_module("self_attn", std::make_shared<LlamaAttention>(options, ranks));
  if (options.moe.has_experts(layer)) {
    experts_ = register_module("mlp", std::make_shared<LlamaExperts>(options, context));
  } else {
    mlp_ = register_module("mlp", std::make_shared<LlamaMlp>(options, options.inner(), ranks,
                                                             /*expert=*/false));
  }
  const auto norm = [&] {
    return std::make_shared<LlamaNorm>(options.hidden_size, options.norm_eps);
  };
  before_ = register_module("input_layernorm", norm());
  between_ = register_module("post_attention_layernorm", norm());
}

at::Tensor LlamaBlock::forward(const at::Tensor& inputs, const RopeTurns& turns,
                               const VisibleKeys& visible, LayerCache* seen,
                               const LoadBalance& balance) {
  const at::Tensor x =
      inputs.add(attention_->forward(before_->forward(inputs), turns, visible, seen));
  const at::Tensor y = between_->forward(x);
  return x.add(experts_ ? experts_->forward(y, balance) : mlp_->forward(y));
}

}  // namespace accel
