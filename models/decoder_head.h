// Heads of decoders in place of that for the next token: outputs of a text, labels of tokens, or a
// span of tokens.
#pragma once

#include <utility>

#include "core/api/batch.h"
#include "core/api/model.h"
#include "core/base/text.h"
#include "models/encoder_head.h"
#include "models/hf/hf_family.h"
#include "models/hf/problem_type.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/transformer_schema.h"

namespace accel {

/// transformers' name of the layer of a head other than that for the next token.
const char* decoder_head_layer(EncoderHead kind);

/// A decoder's head, and the model's name for messages.
struct DecoderHead {
  const char* model;
  EncoderHead kind;  ///< kTokens: the head for the next token
  Auto<int64_t> num_classes;
  Auto<ProblemType> problem_type;
  Auto<int64_t> pad;  ///< id of padding
  double dropout;     ///< in training, of the input of a head for labels

  template <class Options>
  static DecoderHead of(const char* model, const Options& options) {
    return {model,
            options.head_kind(),
            options.num_classes,
            options.problem_type,
            options.pad,
            options.head_dropout.value_or(0.1)};
  }

  bool is_language_model() const { return kind == EncoderHead::kTokens; }
  /// Number of outputs: `num_classes`, or by the data. Throws Error (kRecipe) for a mismatch.
  int64_t outputs(const DataShape& data) const;
  const char* default_task(const DataShape& data) const;

  /// `hidden` [batch, length, width] of `batch` to `layer`'s outputs for labels and spans, [batch,
  /// length, outputs], or for classes at pooled_positions(), [batch, outputs].
  at::Tensor forward(AdaptedLinearImpl& layer, const at::Tensor& hidden, const Batch& batch) const;
  /// The position that a head for classes reads, int64 [batch]: a row's last token whose id is not
  /// `pad`, and 0 in a row without one, as in transformers; the last token without `pad`.
  at::Tensor pooled_positions(const Batch& batch) const;

  /// Writes the keys of a head other than a language model's, whose weight in `shapes` is `weight`.
  void write(const std::string& weight, const WeightShapes& shapes, nlohmann::json& config) const;
};

/// Writes the class of a model of transformers' `prefix`, such as "OPT", and the keys of its head.
void write_decoder_head(const DecoderHead& head, const std::string& prefix,
                        const WeightShapes& shapes, nlohmann::json& config);

/// Adds the names of the head's weights; `table`: the embedding of a language model's tied head, ""
/// of an untied one, whose weight is `untied` in folders.
void add_head_names(EncoderHead kind, const std::string& table, const char* untied, HfNames& names);

/// `pad` of heads for classes.
inline constexpr auto kPadOfEmbedding =
    "The padding token: its embedding is not trained, and the head for classes reads the last "
    "token with another id. auto: as the folder, else none.";
inline constexpr auto kPadOfClasses =
    "Id of padding, of a head for classes: outputs are those of the last token with another id, as "
    "in transformers. auto: of the last token.";

/// Declares `num_classes`, `head`, `pad` with its help, `head_dropout` and `problem_type`.
template <class Options>
Schema<Options> with_decoder_head(Schema<Options> schema, const char* pad = kPadOfClasses) {
  auto heads = with_num_classes(
      std::move(schema),
      "Outputs per text, read from its last token by a linear layer in place of the language "
      "model's head: classes, or 1 for a reward model. auto: as the folder, else a language model.",
      1);
  return with_problem_type(
      std::move(heads)
          .field("head", &Options::head,
                 "tokens: a language model; classes (or numbers) of a text; labels of tokens; span "
                 "of tokens that answers a question. auto: classes with `num_classes`, else "
                 "tokens.")
          .on_resume(Change::kImpossible)
          .field("pad", &Options::pad, pad, if_given<Auto>(at_least<int64_t>(0)))
          .on_resume(Change::kImpossible)
          .field("head_dropout", &Options::head_dropout,
                 "Dropout before the head for labels; auto: 0.1, as in transformers.",
                 if_given<Auto>(within(0.0, 1.0))));
}

/// Options whose `pad` is also that of the embedding.
template <class Options>
concept PadsEmbedding = requires {
  requires Options::kPadsEmbedding;
};

/// Reads the head of transformers' class into these options; `usual_pad`: transformers' default of
/// `pad_token_id`, -1 for none.
template <class Options>
void read_decoder_head(HfConfig& config, Options& options, int64_t usual_pad = -1) {
  const std::optional<EncoderHead> head = encoder_head_in(config.architecture());
  const bool of_labels = head == EncoderHead::kLabels;
  if (of_labels || head == EncoderHead::kSpan) options.head = {*head};
  if (of_labels || head == EncoderHead::kClasses) options.num_classes = {label_count(config)};
  const double usual = config.number("hidden_dropout", 0.1);
  options.head_dropout = {config.number("classifier_dropout", usual)};
  if (head == EncoderHead::kClasses) options.problem_type = problem_type_in(config);
  const bool has_pad = config.states("pad_token_id");
  const int64_t pad = config.integer("pad_token_id", has_pad ? -1 : usual_pad);
  if (pad >= 0) options.pad = {pad};
}

template <class Options>
concept HasDecoderHead = requires(Options options) {
  options.head_kind();
  options.pad.value;
  options.head_dropout.value;
};

/// Leaves out what acts below another head than the recipe's: padding, which a head for classes
/// skips, and the load-balancing loss, which transformers adds to a language model's alone.
template <HasDecoderHead Options>
void fit_folder_to_head(const Options& recipe, Options& folder) {
  Options both = folder;
  if (recipe.head) both.head = recipe.head;
  if (recipe.num_classes) both.num_classes = recipe.num_classes;
  const EncoderHead kind = both.head_kind();
  if (kind != EncoderHead::kClasses && !PadsEmbedding<Options>) folder.pad = {};
  if constexpr (requires { folder.router_aux_loss_coef; }) {
    if (kind != EncoderHead::kTokens && folder.router_aux_loss_coef) {
      folder.router_aux_loss_coef = {0.0};
    }
  }
}

/// Reports options of a head that have no effect.
template <class Options>
void check_decoder_head(const Options& options, const Node& node, Reading& reading) {
  const EncoderHead kind = options.head_kind();
  const std::pair<bool, const char*> of_classes[] = {
      {options.problem_type.value.has_value(), "problem_type"},
      {options.pad.value.has_value() && !PadsEmbedding<Options>, "pad"}};
  for (const auto& [given, name] : of_classes) {
    if (!given || kind == EncoderHead::kClasses) continue;
    reading.problems.error(node.where,
                           accel::text("'{}' has no effect without a head for classes", name),
                           "set 'num_classes', or leave it out");
  }
  if (!options.num_classes || (kind != EncoderHead::kTokens && kind != EncoderHead::kSpan)) return;
  reading.problems.error(node.where,
                         accel::text("'num_classes' has no effect with 'head: {}'",
                                     kind == EncoderHead::kTokens ? "tokens" : "span"),
                         "leave one of the two out");
}

}  // namespace accel
