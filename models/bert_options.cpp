#include "models/bert_options.h"

#include <nlohmann/json.hpp>

#include "models/hf/hf_options.h"
#include "models/hf/hf_sizes.h"
#include "models/layers/sizes.h"
#include "models/layers/transformer_schema.h"

namespace accel {

Schema<BertOptions> bert_sizes(const BertKind& kind) {
  const auto count = at_least<int64_t>(1);
  auto sizes = with_sizes(transformer_schema<BertOptions>("Maximum sequence length."),
                          "Features inside a block's MLP; auto: four times the hidden size.");
  if (kind.projection) {
    std::move(sizes)
        .field("embedding_size", &BertOptions::embedding_size,
               "Features of an embedding, which a linear layer projects to the hidden size; auto: "
               "the hidden size, without such a layer.",
               if_given<Auto>(count))
        .on_resume(Change::kImpossible);
  }
  if (kind.has_segments) {
    std::move(sizes)  // NOLINT(bugprone-use-after-move): field() adds in place
        .field("segments", &BertOptions::segments, "Number of token types (texts per sequence).",
               count)
        .on_resume(Change::kImpossible);
  }
  auto heads = std::move(sizes)  // NOLINT(bugprone-use-after-move): field() adds in place
                   .field("head", &BertOptions::head,
                          "classes (or numbers) of the text, masked tokens, labels of tokens, or "
                          "the span of an answer; auto: by the targets.")
                   .on_resume(Change::kImpossible);
  return with_num_classes(std::move(heads), "Number of classes, or of values to predict.", 1)
      .field("activation", &BertOptions::activation,
             kind.token_activation ? "Within the MLP." : "Within the MLP and the token head.")
      .on_resume(Change::kImpossible);
}

Schema<BertOptions> with_text_pad(Schema<BertOptions> schema) {
  return std::move(schema)
      .field("pad", &BertOptions::text_pad,
             "The padding token, whose embedding is not trained; -1: none. auto: as the folder, "
             "else that of the data.",
             if_given<Auto>(at_least<int64_t>(-1)))
      .on_resume(Change::kImpossible);
}

Auto<int64_t> text_pad_in(HfConfig& config) {
  return {config.integer("pad_token_id", config.values().contains("pad_token_id") ? -1 : 0)};
}

void write_text_pad(const BertOptions& options, nlohmann::json& config) {
  if (!options.text_pad) return;
  const int64_t pad = *options.text_pad;
  config["pad_token_id"] = pad < 0 ? nlohmann::json() : nlohmann::json(pad);
}

Schema<BertOptions> with_bert_dropout(const BertKind& kind, Schema<BertOptions> schema) {
  const auto chance = within(0.0, 1.0);
  if (kind.drops_before_span) {
    std::move(schema).field("span_dropout", &BertOptions::span_dropout,
                            "Dropout before the head for a span; auto: dropout.",
                            if_given<Auto>(chance));
  }
  return with_weights(
      with_problem_type(std::move(schema))  // NOLINT(bugprone-use-after-move): added in place
          .field("dropout", &BertOptions::dropout,
                 "Dropout of embeddings, attention weights and block outputs.", chance)
          .field("attention_dropout", &BertOptions::attention_dropout,
                 "Dropout of attention weights; auto: dropout.", if_given<Auto>(chance))
          .field("head_dropout", &BertOptions::head_dropout,
                 kind.labels_drop_alike
                     ? "Dropout before the head for classes or labels; auto: dropout."
                     : "Dropout before the head for classes; auto: dropout.",
                 if_given<Auto>(chance))
          .check([](const BertOptions& options, const Node& node, Reading& reading) {
            check_multiple({"hidden_size", options.hidden_size}, {"num_heads", options.num_heads},
                           node, reading);
          }));
}

Auto<int64_t> bert_classes_in(const HfConfig& config) {
  const std::optional<EncoderHead> head = encoder_head_in(config.architecture());
  const bool named = head == EncoderHead::kClasses || head == EncoderHead::kLabels;
  return named ? Auto<int64_t>{label_count(config)} : Auto<int64_t>{};
}

BertOptions bert_options_in(HfConfig& config) {
  constexpr auto kNotBuilt = "this model does not do";
  config.want("position_embedding_type", "absolute", kNotBuilt);
  config.want("is_decoder", false, kNotBuilt);
  config.want("add_cross_attention", false, kNotBuilt);
  config.want("tie_word_embeddings", true, kNotBuilt);
  // Google's own configs; transformers does not read them.
  config.ignore({"directionality", "pooler_fc_size", "pooler_num_attention_heads",
                 "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"});
  BertOptions options;
  options.vocab_size = {config.integer("vocab_size")};
  options.max_seq_len = {config.integer("max_position_embeddings", 512)};
  read_hf_sizes(config, {}, options);
  options.segments = config.integer("type_vocab_size", 2);
  options.dropout = config.number("hidden_dropout_prob", 0.1);
  options.attention_dropout = {config.number("attention_probs_dropout_prob", 0.1)};
  options.head_dropout = {config.number("classifier_dropout", options.dropout)};
  options.num_classes = bert_classes_in(config);
  options.problem_type = problem_type_in(config);
  return options;
}

void write_bert_options(const BertOptions& options, nlohmann::json& config) {
  write_hf_sizes(options, options.intermediate_size.value_or(4 * options.hidden_size), {}, config);
  config["type_vocab_size"] = options.segments;
  config["hidden_dropout_prob"] = options.dropout;
  config["attention_probs_dropout_prob"] = options.attention_dropout.value_or(options.dropout);
  config["classifier_dropout"] = options.head_dropout.value_or(options.dropout);
}

void write_bert_head(const BertKind& kind, const std::string& prefix, const WeightShapes& shapes,
                     nlohmann::json& config) {
  const std::string tables = std::string(kind.base).append(".embeddings.");
  config["vocab_size"] = shapes.at(tables + "word_embeddings.weight").at(0);
  const auto positions = shapes.find(tables + "position_embeddings.weight");
  if (positions != shapes.end()) config["max_position_embeddings"] = positions->second.at(0);
  const auto outputs = [&](const char* layer) -> std::optional<int64_t> {
    const auto found = shapes.find(std::string(layer).append(".weight"));
    return found == shapes.end() ? std::nullopt : std::optional(found->second.at(0));
  };
  const std::optional<int64_t> labels = outputs(kBertLabels);
  const EncoderHead head = outputs(kind.pooled) ? EncoderHead::kClasses
                           : labels             ? EncoderHead::kLabels
                           : outputs(kBertSpan) ? EncoderHead::kSpan
                                                : EncoderHead::kTokens;
  config["architectures"] = {prefix + architecture_suffix(head)};
  if (head == EncoderHead::kClasses) write_labels(*outputs(kind.classifier), config);
  if (head == EncoderHead::kLabels) write_labels(*labels, config);
}

}  // namespace accel
