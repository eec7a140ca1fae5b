// Options of T5, and their mapping to config.json.
#pragma once

#include <cstdint>
#include <string>

#include "core/api/model.h"
#include "models/hf/hf_family.h"
#include "models/hf/hf_options.h"
#include "models/layers/activations.h"
#include "models/lora/lora_options.h"
#include "models/quantized/quantization_options.h"

namespace accel {

struct T5Options {
  Auto<int64_t> vocab_size;
  int64_t num_layers = 4;
  Auto<int64_t> num_decoder_layers;
  int64_t num_heads = 4;
  int64_t hidden_size = 128;
  Auto<int64_t> head_dim;
  Auto<int64_t> intermediate_size;
  HfActivation activation = HfActivation::kRelu;
  bool is_gated_act = false;
  double norm_eps = 1e-6;
  int64_t relative_attention_num_buckets = 32;
  int64_t relative_attention_max_distance = 128;
  bool tie_embeddings = true;
  Auto<bool> scale_decoder_outputs;
  int64_t decoder_start_token_id = 0;
  double dropout = 0.0;
  double initializer_factor = 1.0;
  LoraOptions lora;
  QuantizationOptions quantization;
  FilePath weights;

  int64_t decoder_layers() const { return num_decoder_layers.value_or(num_layers); }
  int64_t per_head() const { return head_dim.value_or(hidden_size / num_heads); }
  /// Features of query, key and value of all heads.
  int64_t attended() const { return num_heads * per_head(); }
  int64_t inner() const { return intermediate_size.value_or(4 * hidden_size); }
  /// Whether the head reads hidden states divided by the root of the hidden size.
  bool scales_outputs() const { return scale_decoder_outputs.value_or(tie_embeddings); }

  static Schema<T5Options> schema();
  /// T5, T5 v1.1, FLAN-T5 and mT5.
  static bool reads(const std::string& model_type);
  static T5Options from_config(HfConfig& config);
  void to_config(const WeightShapes& shapes, nlohmann::json& config) const;
  HfNames names() const;
};

/// Heads of all attention and their columns of the tables of relative positions, the inner features
/// of MLPs, and the vocabulary. Throws Error (kRecipe) for `ranks` that do not divide the heads.
TensorPlan t5_tensor_plan(const T5Options& options, int64_t ranks);

}  // namespace accel
