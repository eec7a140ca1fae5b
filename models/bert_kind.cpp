#include "models/bert_kind.h"

#include <nlohmann/json.hpp>

#include "models/sizes.h"
#include "models/transformer_schema.h"

namespace accel {

Schema<BertOptions> bert_sizes(const BertKind& kind) {
  const auto count = at_least<int64_t>(1);
  auto sizes = with_widths(transformer_schema<BertOptions>("Longest sequence it can see."),
                           "Numbers per token within a block's MLP; auto: four times the width.");
  if (kind.has_segments) {
    std::move(sizes)
        .field("segments", &BertOptions::segments, "Texts that a sequence may be made of.", count)
        .on_resume(Change::kImpossible);
  }
  return std::move(sizes)
      .field(
          "head", &BertOptions::head,
          "For classes (or numbers), for tokens to be guessed, or for a label of each token; auto: "
          "what the targets are.")
      .on_resume(Change::kImpossible)
      .field("classes", &BertOptions::classes, "Labels to tell apart, or numbers to predict.",
             if_given<Auto>(count))
      .on_resume(Change::kImpossible)
      .field("activation", &BertOptions::activation,
             kind.token_activation ? "Within the MLP." : "Within the MLP and the token head.")
      .on_resume(Change::kImpossible);
}

Schema<BertOptions> with_bert_dropout(const BertKind& kind, Schema<BertOptions> schema) {
  const auto chance = within(0.0, 1.0);
  return with_weights(
      std::move(schema)
          .field("dropout", &BertOptions::dropout,
                 "Chance of dropping an embedding, an attention weight or a block's output.",
                 chance)
          .field("attention_dropout", &BertOptions::attention_dropout,
                 "That of an attention weight, where it is another.", if_given<Auto>(chance))
          .field("head_dropout", &BertOptions::head_dropout,
                 kind.labels_drop_alike
                     ? "That before the head for classes or labels, where it is another."
                     : "That before the head for classes, where it is another.",
                 if_given<Auto>(chance))
          .check([](const BertOptions& options, const Node& node, Reading& reading) {
            check_multiple({"width", options.width}, {"heads", options.heads}, node, reading);
          }));
}

Auto<int64_t> bert_classes_in(const HfConfig& config) {
  const std::string architecture = config.architecture();
  for (const char* end : {"ForSequenceClassification", "ForTokenClassification"}) {
    if (architecture.ends_with(end)) return {label_count(config)};
  }
  return {};
}

BertOptions bert_options_in(HfConfig& config) {
  constexpr auto kNotBuilt = "this model does not do";
  config.want("position_embedding_type", "absolute", kNotBuilt);
  config.want("is_decoder", false, kNotBuilt);
  config.want("add_cross_attention", false, kNotBuilt);
  config.want("tie_word_embeddings", true, kNotBuilt);
  BertOptions options;
  options.vocab = {config.integer("vocab_size")};
  options.context = {config.integer("max_position_embeddings", 512)};
  options.layers = config.integer("num_hidden_layers");
  options.heads = config.integer("num_attention_heads");
  options.width = config.integer("hidden_size");
  options.hidden = {config.integer("intermediate_size")};
  options.segments = config.integer("type_vocab_size", 2);
  options.activation = activation_in(config, "hidden_act", HfActivation::kGelu);
  options.epsilon = config.number("layer_norm_eps", 1e-12);
  options.dropout = config.number("hidden_dropout_prob", 0.1);
  options.attention_dropout = {config.number("attention_probs_dropout_prob", 0.1)};
  options.head_dropout = {config.number("classifier_dropout", options.dropout)};
  options.classes = bert_classes_in(config);
  return options;
}

void write_bert_options(const BertOptions& options, nlohmann::json& config) {
  config["num_hidden_layers"] = options.layers;
  config["num_attention_heads"] = options.heads;
  config["hidden_size"] = options.width;
  config["intermediate_size"] = options.hidden.value_or(4 * options.width);
  config["type_vocab_size"] = options.segments;
  config["hidden_act"] = config_name(options.activation);
  config["layer_norm_eps"] = options.epsilon;
  config["hidden_dropout_prob"] = options.dropout;
  config["attention_probs_dropout_prob"] = options.attention_dropout.value_or(options.dropout);
  config["classifier_dropout"] = options.head_dropout.value_or(options.dropout);
}

void write_bert_head(const BertKind& kind, const std::string& prefix, const WeightShapes& shapes,
                     nlohmann::json& config) {
  const std::string tables = std::string(kind.base).append(".embeddings.");
  config["vocab_size"] = shapes.at(tables + "word_embeddings.weight").at(0);
  config["max_position_embeddings"] = shapes.at(tables + "position_embeddings.weight").at(0);
  const auto outputs = [&](const char* layer) -> std::optional<int64_t> {
    const auto found = shapes.find(std::string(layer).append(".weight"));
    return found == shapes.end() ? std::nullopt : std::optional(found->second.at(0));
  };
  if (outputs(kind.pooled)) {
    config["architectures"] = {prefix + "ForSequenceClassification"};
    write_labels(*outputs(kind.classifier), config);
  } else if (const std::optional<int64_t> labels = outputs(kBertLabels)) {
    config["architectures"] = {prefix + "ForTokenClassification"};
    write_labels(*labels, config);
  } else {
    config["architectures"] = {prefix + "ForMaskedLM"};
  }
}

}  // namespace accel
