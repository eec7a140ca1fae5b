// What tells BERT and its kin apart, beside the options they share: how folders name their parts,
// and where their ways part.
#pragma once

#include <optional>
#include <string>

#include "models/activations.h"
#include "models/hf_family.h"

namespace accel {

enum class BertHead { kClasses, kTokens, kLabels };

template <>
struct EnumNames<BertHead> {
  static constexpr std::pair<BertHead, const char*> kValues[] = {{BertHead::kClasses, "classes"},
                                                                 {BertHead::kTokens, "tokens"},
                                                                 {BertHead::kLabels, "labels"}};
};

/// Of all kinds. What a kind does not declare stays as it is here.
struct BertOptions {
  Auto<int64_t> vocab;
  Auto<int64_t> context;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128;
  Auto<int64_t> hidden;
  int64_t segments = 2;
  int64_t pad = 1;
  Auto<BertHead> head;
  Auto<int64_t> classes;
  HfActivation activation = HfActivation::kGelu;
  double epsilon = 1e-12;
  double dropout = 0.1;
  Auto<double> attention_dropout;
  Auto<double> head_dropout;
  LoraOptions lora;
  FilePath weights;
};

/// Names are dotted paths: those up to `outer_norm` start at a block, the others at the model.
struct BertKind {
  const char* model;   ///< the component
  const char* base;    ///< the encoder
  const char* blocks;  ///< within the encoder
  const char* query;
  const char* key;
  const char* value;
  const char* attended;
  const char* attended_norm;
  const char* inner;
  const char* outer;
  const char* outer_norm;
  const char* pooled;  ///< the head for classes
  const char* classifier;
  const char* transform;  ///< the head for tokens
  const char* transform_norm;
  const char* token_bias;
  HfActivation pooled_activation;
  std::optional<HfActivation> token_activation;  ///< none: the option `activation`
  bool has_segments;                             ///< an embedding for which text a token is of
  bool skips_pads;  ///< positions count what is no `pad`, from `pad` + 1 on, and `pad` is its own
  bool drops_attended;        ///< drops of what attention gives, as of what the MLP gives
  bool drops_before_pooling;  ///< and not only behind it
  bool labels_drop_alike;     ///< the head for labels has `head_dropout` too, rather than `dropout`
};

/// Of all kinds: the one layer of the head for a label of each token.
inline constexpr auto kBertLabels = "classifier";

/// Rows of the table of positions that come before the first token's.
inline int64_t first_position(const BertKind& kind, const BertOptions& options) {
  return kind.skips_pads ? options.pad + 1 : 0;
}

/// Declares what all kinds have, and `segments` where this one has them.
Schema<BertOptions> bert_sizes(const BertKind& kind);
/// Declares the rest: what training may change.
Schema<BertOptions> with_bert_dropout(const BertKind& kind, Schema<BertOptions> schema);

/// The classes or labels of a folder that has a head for some.
Auto<int64_t> bert_classes_in(const HfConfig& config);

/// Reads and writes the keys that BERT and RoBERTa have in common.
BertOptions bert_options_in(HfConfig& config);
void write_bert_options(const BertOptions& options, nlohmann::json& config);

/// Writes the sizes that `shapes` show, and for which head it is: "Roberta" makes it a
/// RobertaForMaskedLM or another.
void write_bert_head(const BertKind& kind, const std::string& prefix, const WeightShapes& shapes,
                     nlohmann::json& config);

}  // namespace accel
