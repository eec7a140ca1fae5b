// Options of CLIP, and their mapping to config.json.
#pragma once

#include <cstdint>
#include <string>

#include "models/hf/hf_family.h"
#include "models/hf/hf_options.h"
#include "models/layers/activations.h"
#include "models/lora/lora_options.h"

namespace accel {

struct ClipTextOptions {
  Auto<int64_t> vocab_size;
  Auto<int64_t> max_seq_len;
  int64_t num_layers = 4;
  int64_t num_heads = 4;
  int64_t hidden_size = 128;
  Auto<int64_t> intermediate_size;
  HfActivation activation = HfActivation::kQuickGelu;
  double norm_eps = 1e-5;
  Auto<int64_t> eos_token_id;

  static Schema<ClipTextOptions> schema();
};

struct ClipVisionOptions {
  Auto<int64_t> image_size;
  Auto<int64_t> channels;
  int64_t patch_size = 4;
  int64_t num_layers = 4;
  int64_t num_heads = 4;
  int64_t hidden_size = 128;
  Auto<int64_t> intermediate_size;
  HfActivation activation = HfActivation::kQuickGelu;
  double norm_eps = 1e-5;

  static Schema<ClipVisionOptions> schema();
};

struct ClipOptions {
  ClipTextOptions text;
  ClipVisionOptions vision;
  int64_t projection_dim = 512;
  double logit_scale_init_value = 2.6592;
  double attention_dropout = 0.0;
  double initializer_factor = 1.0;
  LoraOptions lora;
  FilePath weights;

  static Schema<ClipOptions> schema();
  static ClipOptions from_config(HfConfig& config);
  void to_config(const WeightShapes& shapes, nlohmann::json& config) const;
};

}  // namespace accel
