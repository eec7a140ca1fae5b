// Options of BERT-style models in recipes and configs, and the differences between their kinds.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

#include "models/encoder_head.h"
#include "models/hf/hf_family.h"
#include "models/hf/problem_type.h"
#include "models/layers/activations.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/relative_attention.h"
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
  Auto<int64_t> embedding_size;
  int64_t segments = 2;
  int64_t pad = 1;         ///< of kinds whose option it is
  Auto<int64_t> text_pad;  ///< the option of the others
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
  RelativeOptions relative;
  bool absolute_positions = false;
  bool legacy_head = true;
  QuantizationOptions quantization;
  FilePath weights;

  /// Relative positions of sequences of `max_seq_len`, else 512, as in transformers.
  int64_t relative_context() const { return max_seq_len.value_or(512); }
  int64_t embedded() const { return embedding_size.value_or(hidden_size); }
};

/// Differences of kinds. Names are relative to a block up to `outer_norm`, then to the model.
struct BertKind {
  const char* model;                     ///< component name
  const char* base;                      ///< the encoder
  const char* blocks = "encoder.layer";  ///< relative to the encoder
  const char* query = "attention.self.query";
  const char* key = "attention.self.key";
  const char* value = "attention.self.value";
  const char* attended = "attention.output.dense";
  const char* attended_norm = "attention.output.LayerNorm";
  const char* inner = "intermediate.dense";
  const char* outer = "output.dense";
  const char* outer_norm = "output.LayerNorm";
  const char* pooled;  ///< sequence classification head
  const char* classifier;
  const char* transform;  ///< masked language modeling head
  const char* transform_norm;
  const char* token_bias;
  HfActivation pooled_activation = HfActivation::kTanh;
  std::optional<HfActivation> token_activation = {};  ///< none: the option `activation`
  bool has_segments = true;                           ///< has token type embeddings
  bool has_relative = false;         ///< disentangled attention; absolute positions are an option
  const char* projection = nullptr;  ///< from embeddings of `embedding_size`; null: no such option
  bool pads_embedding = false;       ///< `pad` is BertOptions::pad, else text_pad
  bool skips_pads =
      false;  ///< the same, and positions count other tokens from `pad` + 1; pads have `pad`
  bool drops_attended = true;         ///< applies dropout to the attention output
  bool drops_before_pooling = false;  ///< applies dropout before the pooler too
  bool labels_drop_alike = true;      ///< `head_dropout` applies to the head for labels too
  bool drops_before_span = false;     ///< applies `span_dropout` before the head for a span
};

/// The linear layer of the token classification head, in all kinds.
inline constexpr auto kBertLabels = "classifier";
/// That of the head for a span.
inline constexpr auto kBertSpan = "qa_outputs";

/// Declare the sizes of all kinds, with `segments` for kinds with token types, and the rest.
Schema<BertOptions> bert_sizes(const BertKind& kind);
Schema<BertOptions> with_bert_dropout(const BertKind& kind, Schema<BertOptions> schema);
/// `pad` and its key in folders, of kinds that do without it otherwise.
Schema<BertOptions> with_text_pad(Schema<BertOptions> schema);
Auto<int64_t> text_pad_in(HfConfig& config);
void write_text_pad(const BertOptions& options, nlohmann::json& config);

/// The number of classes or labels of a folder with such a head.
Auto<int64_t> bert_classes_in(const HfConfig& config);

/// The config keys shared by BERT and RoBERTa.
BertOptions bert_options_in(HfConfig& config);
void write_bert_options(const BertOptions& options, nlohmann::json& config);

/// Writes the sizes given by `shapes`, and the architecture of the head: prefix "Roberta" gives
/// RobertaForMaskedLM, for instance.
void write_bert_head(const BertKind& kind, const std::string& prefix, const WeightShapes& shapes,
                     nlohmann::json& config);

}  // namespace accel
