// Tensor parallelism of Llama models.
#include "core/api/tensor_parallel.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "models/layers/tensor_parallel.h"
#include "models/llama_options.h"

namespace accel {
namespace {

/// With fused projections: an MLP of fused gate and up.
void add_fused(const LlamaOptions& options, TensorPlan& plan) {
  using enum TensorStyle;
  const bool is_equal = options.groups() == options.num_heads;
  plan.push_back({"model.layers.*.self_attn.qkv_proj",
                  is_equal ? kColwise : kReplicatedWithGradAllReduce, is_equal ? 3 : 1});
  plan.push_back({"model.layers.*.mlp.gate_up_proj", kColwise, 2});
  plan.push_back({"model.layers.*.mlp.down_proj", kRowwise});
}

void add_mlp(const std::string& mlp, TensorPlan& plan) {
  using enum TensorStyle;
  plan.push_back({mlp + ".gate_proj", kColwise});
  plan.push_back({mlp + ".up_proj", kColwise});
  plan.push_back({mlp + ".down_proj", kRowwise});
}

/// Ranks compute parts of the outputs of experts, and so of the gradients of routers and gates.
void add_experts(const MoeOptions& moe, TensorPlan& plan) {
  using enum TensorStyle;
  add_mlp("model.layers.*.mlp.experts.*", plan);
  plan.push_back({"model.layers.*.mlp.gate", kReplicatedWithGradAllReduce});
  if (moe.shared_expert_intermediate_size == 0) return;
  add_mlp("model.layers.*.mlp.shared_expert", plan);
  if (!moe.shared_expert_gate) return;
  plan.push_back({"model.layers.*.mlp.shared_expert_gate", kReplicatedWithGradAllReduce});
}

}  // namespace

TensorPlan llama_tensor_plan(const LlamaOptions& options, int64_t ranks) {
  using enum TensorStyle;
  if (options.has_score()) {
    throw Error(ExitCode::kRecipe,
                text("'tp' does not support '{}' of llama", options.head_option()),
                "leave 'tp' out");
  }
  if (options.moe.num_experts > 0 && options.mlp_bias) {
    throw Error(ExitCode::kRecipe, "'tp' does not support 'mlp_bias' with 'moe'",
                "leave one of the three out");
  }
  check_divides("num_heads", options.num_heads, ranks);
  const bool repeated = options.groups() < ranks;  // key and value heads
  if (!repeated) check_divides("num_kv_heads", options.groups(), ranks);
  if (repeated && ranks % options.groups() != 0) {
    throw Error(
        ExitCode::kRecipe,
        text("'tp' {} is not a multiple of the model's 'num_kv_heads' {}", ranks, options.groups()),
        "use a divisor or a multiple of it");
  }
  const TensorStyle keys = repeated ? kReplicatedWithGradAllReduce : kColwise;
  TensorPlan plan = {{"model.embed_tokens", kEmbeddingRowwise},
                     {"model.layers.*.self_attn.o_proj", kRowwise},
                     {"model.layers.*.input_layernorm", kSequenceParallel},
                     {"model.layers.*.post_attention_layernorm", kSequenceParallel},
                     {"model.norm", kSequenceParallel}};
  if (options.sandwich_norms) {
    plan.push_back({"model.layers.*.pre_feedforward_layernorm", kSequenceParallel});
    plan.push_back({"model.layers.*.post_feedforward_layernorm", kSequenceParallel});
  }
  if (options.fused_projections) {
    add_fused(options, plan);
  } else {
    plan.push_back({"model.layers.*.self_attn.q_proj", kColwise});
    plan.push_back({"model.layers.*.self_attn.k_proj", keys});
    plan.push_back({"model.layers.*.self_attn.v_proj", keys});
  }
  int64_t with_experts = 0;
  for (int64_t i = 0; i < options.num_layers; ++i) with_experts += options.moe.has_experts(i);
  if (with_experts < options.num_layers && !options.fused_projections)
    add_mlp("model.layers.*.mlp", plan);
  if (with_experts > 0) add_experts(options.moe, plan);
  if (options.qk_norm) {
    plan.push_back({"model.layers.*.self_attn.q_norm", kReplicatedWithGradAllReduce});
    plan.push_back({"model.layers.*.self_attn.k_norm", kReplicatedWithGradAllReduce});
  }
  if (!options.tie_embeddings) plan.push_back({"lm_head", kColwise});
  return plan;
}

}  // namespace accel
