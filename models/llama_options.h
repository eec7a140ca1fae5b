// Options of Llama models, and their keys in Hugging Face's configs.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "models/decoder_head.h"
#include "models/encoder_head.h"
#include "models/hf/hf_family.h"
#include "models/hf/problem_type.h"
#include "models/layers/activations.h"
#include "models/layers/moe_options.h"
#include "models/layers/rope.h"
#include "models/lora/lora_options.h"
#include "models/quantized/quantization_options.h"

namespace accel {

enum class LlamaBias { kNone, kInputs, kAll };

template <>
struct EnumNames<LlamaBias> {
  static constexpr std::pair<LlamaBias, const char*> kValues[] = {
      {LlamaBias::kNone, "none"}, {LlamaBias::kInputs, "qkv"}, {LlamaBias::kAll, "all"}};
};

/// transformers' names.
enum class LlamaLayerType { kFull, kSliding };

template <>
struct EnumNames<LlamaLayerType> {
  static constexpr std::pair<LlamaLayerType, const char*> kValues[] = {
      {LlamaLayerType::kFull, "full_attention"}, {LlamaLayerType::kSliding, "sliding_attention"}};
};

struct LlamaOptions {
  static constexpr bool kPadsEmbedding = true;

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
  Auto<int64_t> sliding_window;
  std::vector<LlamaLayerType> layer_types;
  Auto<double> local_rope_theta;
  std::vector<int64_t> nope_layers;
  bool zero_centered_gamma = false;
  bool sandwich_norms = false;
  bool scale_embeddings = false;
  bool fused_projections = false;
  Auto<double> query_pre_attn_scalar;
  Auto<double> attn_logit_softcapping;
  Auto<double> final_logit_softcapping;
  double residual_dropout = 0.0;
  bool tie_embeddings = false;
  double attention_dropout = 0.0;
  MoeOptions moe;
  Auto<double> router_aux_loss_coef;
  Auto<EncoderHead> head;
  Auto<int64_t> num_classes;
  Auto<double> head_dropout;
  Auto<ProblemType> problem_type;
  Auto<int64_t> pad;
  LoraOptions lora;
  QuantizationOptions quantization;
  FilePath weights;

  int64_t groups() const { return num_kv_heads.value_or(num_heads); }
  int64_t per_head() const { return head_dim.value_or(hidden_size / num_heads); }
  /// Llama's default: two thirds of four times the hidden size, rounded up to a multiple of 32.
  int64_t inner() const { return intermediate_size.value_or((8 * hidden_size / 3 + 31) / 32 * 32); }
  EncoderHead head_kind() const {
    return head.value_or(num_classes ? EncoderHead::kClasses : EncoderHead::kTokens);
  }
  /// Whether another head replaces that of the language model.
  bool has_score() const { return head_kind() != EncoderHead::kTokens; }
  /// Whether a layer attends to the last `sliding_window` tokens only.
  bool slides(int64_t layer) const;
  bool has_positions(int64_t layer) const;
  /// Rotary positions of layers with a window.
  RopeOptions local_rope() const;
  int64_t expert_inner() const { return moe.intermediate_size.value_or(inner()); }
  /// Of the load-balancing loss; 0: none.
  double balance() const {
    const double usual = moe.num_experts > 0 && moe.bias_update_rate == 0 ? 0.01 : 0;
    return router_aux_loss_coef.value_or(usual);
  }

  /// transformers' name of the layer of a head other than the language model's.
  const char* head_layer() const {
    return head_kind() == EncoderHead::kSpan ? "qa_outputs" : "score";
  }
  /// The option that chooses it, for messages.
  const char* head_option() const {
    return head_kind() == EncoderHead::kSpan ? "head: span" : "num_classes";
  }
  /// LlamaFamily::answers_base of these options; "" without one.
  std::string answers_base() const;

  static Schema<LlamaOptions> schema();
  HfNames names() const;
};

/// transformers' plan, with a vocabulary-parallel embedding and loss. Throws Error (kRecipe) for
/// options that it does not support.
TensorPlan llama_tensor_plan(const LlamaOptions& options, int64_t ranks);

/// Whether it is a `model_type` of these models.
bool is_llama_type(const std::string& model_type);
LlamaOptions llama_options_in(HfConfig& config);
/// Throws Error (kRecipe) where transformers has no such model.
void write_llama_options(const LlamaOptions& options, const WeightShapes& shapes,
                         nlohmann::json& config);
/// As llama.cpp has it: `config` and `weights` are those of a folder. Throws Error (kRecipe) for
/// options that llama.cpp's models lack or ignore.
GgufModel llama_gguf(const LlamaOptions& options, const nlohmann::json& config,
                     const std::vector<TensorSource>& weights);

}  // namespace accel
