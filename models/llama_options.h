// Options of Llama models, and their keys in Hugging Face's configs.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>

#include "models/hf/hf_family.h"
#include "models/layers/activations.h"
#include "models/layers/moe_options.h"
#include "models/layers/rope.h"

namespace accel {

enum class LlamaBias { kNone, kInputs, kAll };

template <>
struct EnumNames<LlamaBias> {
  static constexpr std::pair<LlamaBias, const char*> kValues[] = {
      {LlamaBias::kNone, "none"}, {LlamaBias::kInputs, "qkv"}, {LlamaBias::kAll, "all"}};
};

struct LlamaOptions {
  Auto<int64_t> vocab_size;
  Auto<int64_t> max_seq_len;
  int64_t num_layers = 4;
  int64_t num_heads = 4;
  Auto<int64_t> num_kv_heads;
  Auto<int64_t> head_dim;
  int64_t hidden_size = 128;
  Auto<int64_t> intermediate_size;
  HfActivation activation = HfActivation::kSilu;
  double norm_eps = 1e-6;
  RopeOptions rope;
  LlamaBias attention_bias = LlamaBias::kNone;
  bool mlp_bias = false;
  bool qk_norm = false;
  bool tie_embeddings = false;
  double attention_dropout = 0.0;
  MoeOptions moe;
  Auto<double> router_aux_loss_coef;
  Auto<int64_t> num_classes;
  LoraOptions lora;
  FilePath weights;

  int64_t groups() const { return num_kv_heads.value_or(num_heads); }
  int64_t per_head() const { return head_dim.value_or(hidden_size / num_heads); }
  /// Llama's default: two thirds of four times the hidden size, rounded up to a multiple of 32.
  int64_t inner() const { return intermediate_size.value_or((8 * hidden_size / 3 + 31) / 32 * 32); }
  /// Whether a head for outputs per text replaces that of the language model.
  bool has_score() const { return num_classes.value.has_value(); }
  int64_t expert_inner() const { return moe.intermediate_size.value_or(inner()); }
  /// Of the load-balancing loss; 0: none.
  double balance() const {
    const double usual = moe.num_experts > 0 && moe.bias_update_rate == 0 ? 0.01 : 0;
    return router_aux_loss_coef.value_or(usual);
  }

  static Schema<LlamaOptions> schema();
  /// Whether it is a `model_type` of these models.
  static bool reads(const std::string& model_type);
  static LlamaOptions from_config(HfConfig& config);
  /// Throws Error (kRecipe) where transformers has no such model.
  void to_config(const WeightShapes& shapes, nlohmann::json& config) const;
  HfNames names() const;
};

}  // namespace accel
