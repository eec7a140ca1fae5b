#include "models/llama_mlp.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/modules/container/modulelist.h>

#include "models/layers/activations.h"

namespace accel {

AdaptedLinear llama_linear(torch::nn::Module& in, const char* name, int64_t inputs, int64_t outputs,
                           bool bias) {
  const auto options = torch::nn::LinearOptions(inputs, outputs).bias(bias);
  return in.register_module(name, AdaptedLinear(options));
}

LlamaMlp::LlamaMlp(const LlamaOptions& options, int64_t inner, const TensorRanksPtr& ranks,
                   bool expert)
    : activation_(options.activation), ranks_(expert ? nullptr : ranks) {
  const int64_t width = options.hidden_size;
  if (options.fused_projections) {
    gate_up_proj_ = llama_linear(*this, "gate_up_proj", width, 2 * inner, false);
  } else {
    gate_proj_ = llama_linear(*this, "gate_proj", width, inner, options.mlp_bias);
    up_proj_ = llama_linear(*this, "up_proj", width, inner, options.mlp_bias);
  }
  down_proj_ = llama_linear(*this, "down_proj", inner, width, options.mlp_bias);
  down_proj_->divide_inputs(ranks, !expert);
}

at::Tensor LlamaMlp::forward(const at::Tensor& inputs) {
  const at::Tensor x = enter(ranks_, inputs);
  if (gate_up_proj_) {
    const std::vector<at::Tensor> halves = gate_up_proj_->forward(x).chunk(2, -1);
    return down_proj_->forward(gated(activation_, halves[0], halves[1]));
  }
  const at::Tensor gate = gate_proj_->forward(x);
  return down_proj_->forward(gated(activation_, gate, up_proj_->forward(x)));
}

LlamaExperts::LlamaExperts(const LlamaOptions& options, const ModelContext& context)
    : moe_(options.moe), ranks_(context.experts), tensor_(context.tensor) {
  gate_ = llama_linear(*this, "gate", options.hidden_size, moe_.num_experts, false);
  gate_->compute_in_fp32();
  torch::nn::ModuleList list;
  for (int64_t i = 0; i < moe_.num_experts; ++i) {
    experts_.push_back(
        std::make_shared<LlamaMlp>(options, options.expert_inner(), tensor_, /*expert=*/true));
    list->push_back(experts_.back());
  }
  register_module("experts", list);
  if (moe_.shared_expert_intermediate_size > 0) {
    shared_expert_ = register_module(
        "shared_expert", std::make_shared<LlamaMlp>(options, moe_.shared_expert_intermediate_size,
                                                    tensor_, /*expert=*/true));
    if (moe_.shared_expert_gate) {
      shared_expert_gate_ =
          llama_linear(*this, "shared_expert_gate", options.hidden_size, 1, false);
    }
  }
  if (moe_.bias_update_rate == 0) return;
  const at::Tensor zeros = at::zeros({moe_.num_experts}, at::kFloat);
  bias_ = gate_->register_buffer("e_score_correction_bias", zeros.clone());
  load_ = register_buffer("tokens_per_expert", zeros);
}

at::Tensor LlamaExperts::forward(const at::Tensor& inputs, const LoadBalance& balance) {
  // Without the cast of enter(): the router computes in float32.
  const at::Tensor x = tensor_ ? tensor_->enter(inputs) : inputs;
  const at::Tensor tokens = x.flatten(0, 1);
  at::Tensor probabilities = gate_->forward(tokens).softmax(-1);
  const ExpertChoice choice = {.k = moe_.num_experts_per_tok, .bias = bias_, .load = load_};
  probabilities = balance.add_layer(probabilities, choice);
  const ExpertRouting routing = route_to_experts(probabilities, choice, moe_.norm_topk_prob);
  const auto expert = [&](size_t i, const at::Tensor& rows) { return experts_[i]->forward(rows); };
  at::Tensor mixed = mix_experts(tokens, routing, expert, ranks_.get());
  if (shared_expert_) mixed = mixed.add(shared_output(tokens));
  mixed = mixed.view_as(x);
  return tensor_ ? tensor_->leave(mixed) : mixed;
}

at::Tensor LlamaExperts::shared_output(const at::Tensor& tokens) {
  const at::Tensor output = shared_expert_->forward(tokens);
  return shared_expert_gate_ ? shared_expert_gate_->forward(tokens).sigmoid().mul(output) : output;
}

void LlamaExperts::change_bias(const at::Tensor& load) {
  const at::NoGradGuard no_grad;
  bias_.add_(load.mean().sub(load).sign(), moe_.bias_update_rate);
  load_.zero_();
}

}  // namespace accel
