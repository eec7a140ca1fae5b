// Options of GPT-2 models, and their keys in Hugging Face's configs.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "models/decoder_head.h"
#include "models/hf/hf_family.h"
#include "models/layers/activations.h"
#include "models/lora/lora_options.h"
#include "models/quantized/quantization_options.h"

namespace accel {

struct GptOptions {
  Auto<int64_t> vocab_size;
  Auto<int64_t> max_seq_len;
  int64_t num_layers = 4;
  int64_t num_heads = 4;
  int64_t hidden_size = 128;
  Auto<int64_t> intermediate_size;
  HfActivation activation = HfActivation::kGeluTanh;
  double norm_eps = 1e-5;
  bool tie_embeddings = true;
  double dropout = 0.0;
  Auto<double> attention_dropout;
  Auto<double> embedding_dropout;
  Auto<EncoderHead> head;
  Auto<int64_t> num_classes;
  Auto<double> head_dropout;
  Auto<ProblemType> problem_type;
  Auto<int64_t> pad;
  LoraOptions lora;
  QuantizationOptions quantization;
  FilePath weights;

  EncoderHead head_kind() const {
    return head.value_or(num_classes ? EncoderHead::kClasses : EncoderHead::kTokens);
  }
  bool is_language_model() const { return head_kind() == EncoderHead::kTokens; }
  int64_t inner() const { return intermediate_size.value_or(4 * hidden_size); }

  static Schema<GptOptions> schema();
  HfNames names() const;
};

/// Problems are collected in the config.
GptOptions gpt_options_in(HfConfig& config);
void write_gpt_options(const GptOptions& options, const WeightShapes& shapes,
                       nlohmann::json& config);
/// As llama.cpp has it: `config` and `weights` are those of a folder, linear layers [out, in].
/// Throws Error (kRecipe) for options that llama.cpp's GPT-2 lacks.
GgufModel gpt_gguf(const GptOptions& options, const nlohmann::json& config,
                   const std::vector<TensorSource>& weights);

}  // namespace accel
