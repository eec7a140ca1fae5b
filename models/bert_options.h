// Options of BERT-style models.
#pragma once

#include <cstdint>

#include "models/encoder_head.h"
#include "models/hf/hf_family.h"
#include "models/hf/problem_type.h"
#include "models/layers/activations.h"
#include "models/layers/adapted_linear.h"
#include "models/lora/lora_options.h"
#include "models/quantized/quantization_options.h"

namespace accel {

/// Options of all kinds. Options that a kind does not declare keep these defaults.
struct BertOptions {
  Auto<int64_t> vocab_size;
  Auto<int64_t> max_seq_len;
  int64_t num_layers = 4;
  int64_t num_heads = 4;
  int64_t hidden_size = 128;
  Auto<int64_t> intermediate_size;
  int64_t segments = 2;
  int64_t pad = 1;
  Auto<EncoderHead> head;
  Auto<int64_t> num_classes;
  HfActivation activation = HfActivation::kGelu;
  double norm_eps = 1e-12;
  double dropout = 0.1;
  Auto<double> attention_dropout;
  Auto<double> head_dropout;
  Auto<double> span_dropout;
  Auto<ProblemType> problem_type;
  LoraOptions lora;
  QuantizationOptions quantization;
  FilePath weights;
};

}  // namespace accel
