#include "models/llama_families.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel::llama_families {
namespace {

struct FeatureName {
  unsigned feature;
  const char* option;
};

constexpr FeatureName kFeatureNames[] = {{kExperts, "moe"},
                                         {kQkNorm, "qk_norm"},
                                         {kInputBias, "attention_bias: qkv"},
                                         {kAttentionBias, "attention_bias: all"},
                                         {kMlpBias, "mlp_bias"},
                                         {kWindow, "sliding_window"},
                                         {kSomeWindows, "layer_types"},
                                         {kLocalRope, "local_rope_theta"},
                                         {kNope, "nope_layers"},
                                         {kZeroCentered, "zero_centered_gamma"},
                                         {kSandwich, "sandwich_norms"},
                                         {kScaledEmbeddings, "scale_embeddings"},
                                         {kFused, "fused_projections"},
                                         {kQueryScalar, "query_pre_attn_scalar"},
                                         {kScoreCap, "attn_logit_softcapping"},
                                         {kLogitCap, "final_logit_softcapping"},
                                         {kPartialRotary, "rope.partial_rotary_factor"},
                                         {kResidualDropout, "residual_dropout"},
                                         {kSharedExpert, "moe.shared_expert_intermediate_size"}};

constexpr LlamaFamily kFamilies[] = {
    {"llama", "Llama", 0, kAttentionBias | kMlpBias, {.context = 2048}, "transformer."},
    {"mistral",
     "Mistral",
     0,
     kWindow,
     {.context = 131072, .window = 4096, .kv_heads = 8},
     "model."},
    {"mixtral",
     "Mixtral",
     kExperts,
     kWindow,
     {.context = 131072, .norm_eps = 1e-5, .theta = 1e6, .kv_heads = 8},
     "model."},
    {"qwen2", "Qwen2", kInputBias, kWindows, {.window = 4096, .kv_heads = 32}, "transformer."},
    {"qwen2_moe",
     "Qwen2Moe",
     kExperts | kSharedExpert,
     kInputBias | kWindows,
     {.window = 4096, .kv_heads = 16},
     "model."},
    {"qwen3",
     "Qwen3",
     kQkNorm,
     kAttentionBias | kWindows,
     {.head_dim = 128, .window = 4096, .kv_heads = 32},
     "transformer."},
    {"qwen3_moe",
     "Qwen3Moe",
     kExperts | kQkNorm,
     kAttentionBias | kWindow,
     {.window = 4096, .kv_heads = 4}},
    {"phi3",
     "Phi3",
     kFused,
     kWindow | kPartialRotary | kResidualDropout,
     {.context = 4096, .norm_eps = 1e-5, .pad = 32000}},
    {"smollm3",
     "SmolLM3",
     0,
     kNope | kAttentionBias | kMlpBias | kWindows,
     {.theta = 2e6, .tied = true, .kv_heads = 4, .pad = 128004},
     "transformer."},
    {"gemma",
     "Gemma",
     kGemma,
     kAttentionBias,
     {.context = 8192, .head_dim = 256, .tied = true, .kv_heads = 16, .pad = 0}},
    {"gemma2",
     "Gemma2",
     kGemma | kSandwich,
     kAttentionBias | kWindows | kQueryScalar | kScoreCap | kLogitCap,
     {.context = 8192, .head_dim = 256, .tied = true, .window = 4096, .kv_heads = 4, .pad = 0}},
    {"gemma3_text",
     "Gemma3",
     kGemma | kSandwich | kQkNorm,
     kAttentionBias | kWindows | kLocalRope | kQueryScalar | kLogitCap,
     {.context = 131072,
      .theta = 1e6,
      .head_dim = 256,
      .tied = true,
      .window = 4096,
      .kv_heads = 4,
      .pad = 0}},
};

unsigned features_of(const LlamaOptions& options) {
  int64_t slides = 0;
  for (int64_t i = 0; i < options.num_layers; ++i) slides += options.slides(i);
  const std::pair<bool, unsigned> all[] = {
      {options.moe.num_experts > 0, kExperts},
      {options.qk_norm, kQkNorm},
      {options.attention_bias == LlamaBias::kInputs, kInputBias},
      {options.attention_bias == LlamaBias::kAll, kAttentionBias},
      {options.mlp_bias, kMlpBias},
      {slides > 0 && slides == options.num_layers, kWindow},
      {slides > 0 && slides < options.num_layers, kSomeWindows},
      {slides > 0 && options.local_rope_theta, kLocalRope},
      {!options.nope_layers.empty(), kNope},
      {options.zero_centered_gamma, kZeroCentered},
      {options.sandwich_norms, kSandwich},
      {options.scale_embeddings, kScaledEmbeddings},
      {options.fused_projections, kFused},
      {options.query_pre_attn_scalar.value_or(0) > 0, kQueryScalar},
      {options.attn_logit_softcapping.value_or(0) > 0, kScoreCap},
      {options.final_logit_softcapping.value_or(0) > 0, kLogitCap},
      {options.rope.partial_rotary_factor < 1, kPartialRotary},
      {options.residual_dropout > 0, kResidualDropout},
      {options.moe.shared_expert_intermediate_size > 0, kSharedExpert}};
  unsigned out = 0;
  for (const auto& [has, feature] : all) out |= has ? feature : 0;
  return out;
}

bool has_features(const LlamaFamily& family, unsigned features) {
  return (features & family.always) == family.always &&
         (features & ~(family.always | family.maybe)) == 0;
}

/// Throws Error (kRecipe) for options of experts that transformers' models lack.
void check_experts(const LlamaOptions& options) {
  const MoeOptions& moe = options.moe;
  if (moe.num_experts == 0) return;
  if (moe.bias_update_rate > 0) {
    throw Error(ExitCode::kRecipe,
                "transformers' Mixtral, Qwen2-MoE and Qwen3-MoE have no bias of experts: "
                "'moe.bias_update_rate'",
                "train with 'router_aux_loss_coef' instead");
  }
  if (!moe.shared_expert_gate) {
    throw Error(ExitCode::kRecipe,
                "transformers' Qwen2-MoE has a gate of the shared expert: 'moe.shared_expert_gate' "
                "is false",
                "train with 'shared_expert_gate'");
  }
  if (moe.shared_expert_intermediate_size > 0) return;
  if (options.qk_norm || (moe.norm_topk_prob && moe.is_everywhere())) return;
  throw Error(ExitCode::kRecipe,
              "transformers has no model with experts and these options of 'moe'",
              "Mixtral has experts in all layers and 'norm_topk_prob'; Qwen3-MoE has 'qk_norm', "
              "Qwen2-MoE a shared expert");
}

}  // namespace

const LlamaFamily* family_of(const std::string& model_type) {
  for (const LlamaFamily& family : kFamilies) {
    if (model_type == family.model_type) return &family;
  }
  return nullptr;
}

const LlamaFamily* answers_family(const LlamaOptions& options) {
  const unsigned features = features_of(options);
  for (const LlamaFamily& family : kFamilies) {
    if (has_features(family, features)) return family.answers_base ? &family : nullptr;
  }
  return nullptr;
}

const LlamaFamily& family_for(const LlamaOptions& options, const nlohmann::json& config) {
  check_experts(options);
  const unsigned features = features_of(options);
  const LlamaFamily* known = family_of(config.value("model_type", ""));
  if (known && has_features(*known, features)) return *known;
  for (const LlamaFamily& family : kFamilies) {
    if (has_features(family, features)) return family;
  }
  std::vector<std::string> names;
  for (const FeatureName& item : kFeatureNames) {
    if (features & item.feature) names.emplace_back(item.option);
  }
  throw Error(ExitCode::kRecipe,
              text("transformers has no model with these options together: {}", quoted_list(names)),
              "docs/models.md has a table of the options of each family");
}

}  // namespace accel::llama_families
