// Options of ModernBERT, and their keys in Hugging Face's configs.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "models/encoder_head.h"
#include "models/hf/hf_family.h"
#include "models/hf/problem_type.h"
#include "models/layers/activations.h"
#include "models/layers/rope.h"
#include "models/llama_options.h"
#include "models/lora/lora_options.h"
#include "models/quantized/quantization_options.h"

namespace accel {

/// What a head for classes reads: the first token, or the mean of all.
enum class TextPooling { kCls, kMean };

template <>
struct EnumNames<TextPooling> {
  static constexpr std::pair<TextPooling, const char*> kValues[] = {{TextPooling::kCls, "cls"},
                                                                    {TextPooling::kMean, "mean"}};
};

struct ModernBertOptions {
  Auto<int64_t> vocab_size;
  Auto<int64_t> max_seq_len;
  int64_t num_layers = 4;
  int64_t num_heads = 4;
  int64_t hidden_size = 128;
  Auto<int64_t> intermediate_size;
  Auto<EncoderHead> head;
  Auto<int64_t> num_classes;
  HfActivation activation = HfActivation::kGelu;
  HfActivation head_activation = HfActivation::kGelu;
  double norm_eps = 1e-5;
  bool norm_bias = false;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool head_bias = false;
  bool decoder_bias = true;
  RopeOptions rope = {.theta = 160000.0};
  double local_rope_theta = 10000.0;
  int64_t local_attention = 128;
  std::vector<LlamaLayerType> layer_types;
  TextPooling pooling = TextPooling::kCls;
  Auto<int64_t> pad;
  double embedding_dropout = 0.0;
  double attention_dropout = 0.0;
  double mlp_dropout = 0.0;
  double head_dropout = 0.0;
  Auto<ProblemType> problem_type;
  LoraOptions lora;
  QuantizationOptions quantization;
  FilePath weights;

  int64_t inner() const { return intermediate_size.value_or(3 * hidden_size / 2); }
  int64_t head_dim() const { return hidden_size / num_heads; }
  bool slides(int64_t layer) const {
    if (layer_types.empty()) return layer % 3 != 0;
    return layer_types[static_cast<size_t>(layer) % layer_types.size()] == LlamaLayerType::kSliding;
  }
  RopeOptions local_rope() const { return {.theta = local_rope_theta}; }

  static Schema<ModernBertOptions> schema();
  static ModernBertOptions from_config(HfConfig& config);
  void to_config(const WeightShapes& shapes, nlohmann::json& config) const;
};

}  // namespace accel
