// DistilBERT: a BERT that does not tell texts of a sequence apart. Parameters are named as in
// Hugging Face's DistilBERT.
#include <nlohmann/json.hpp>

#include "models/bert_model.h"

namespace accel {
namespace {

constexpr BertKind kDistilBertKind = {.model = "distilbert",
                                      .base = "distilbert",
                                      .blocks = "transformer.layer",
                                      .query = "attention.q_lin",
                                      .key = "attention.k_lin",
                                      .value = "attention.v_lin",
                                      .attended = "attention.out_lin",
                                      .attended_norm = "sa_layer_norm",
                                      .inner = "ffn.lin1",
                                      .outer = "ffn.lin2",
                                      .outer_norm = "output_layer_norm",
                                      .pooled = "pre_classifier",
                                      .classifier = "classifier",
                                      .transform = "vocab_transform",
                                      .transform_norm = "vocab_layer_norm",
                                      .token_bias = "vocab_projector.bias",
                                      .pooled_activation = HfActivation::kRelu,
                                      .token_activation = {},
                                      .has_segments = false,
                                      .skips_pads = false,
                                      .drops_attended = false,
                                      .drops_before_pooling = false,
                                      .labels_drop_alike = false};

class DistilBert final : public BertModel {
 public:
  static constexpr auto kName = "distilbert";
  static constexpr auto kSummary =
      "A DistilBERT encoder of texts with a head for classes, labels or hidden tokens.";
  static constexpr bool kGenerates = false;

  static Schema<BertOptions> schema() {
    return with_bert_dropout(kDistilBertKind, bert_sizes(kDistilBertKind));
  }
  static bool reads(const std::string& model_type) { return model_type == "distilbert"; }
  static BertOptions from_config(HfConfig& config);
  static void to_config(const BertOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config);
  static HfNames names(const BertOptions&) {
    return {"distilbert.",
            {},
            {"*.position_ids", "vocab_*", "pre_classifier.*", "classifier.*"},
            {"vocab_*", "pre_classifier.*", "classifier.*"}};
  }

  DistilBert(const BertOptions& options, const ModelContext& context)
      : BertModel(kDistilBertKind, options, context) {}
};

BertOptions DistilBert::from_config(HfConfig& config) {
  config.want("tie_word_embeddings", true, "this model does not do");
  BertOptions options;
  options.vocab = {config.integer("vocab_size")};
  options.context = {config.integer("max_position_embeddings", 512)};
  options.layers = config.integer("n_layers");
  options.heads = config.integer("n_heads");
  options.width = config.integer("dim");
  options.hidden = {config.integer("hidden_dim")};
  options.activation = activation_in(config, "activation", HfActivation::kGelu);
  options.dropout = config.number("dropout", 0.1);
  options.attention_dropout = {config.number("attention_dropout", 0.1)};
  options.head_dropout = {config.number("seq_classif_dropout", 0.2)};
  options.classes = bert_classes_in(config);
  return options;
}

void DistilBert::to_config(const BertOptions& options, const WeightShapes& shapes,
                           nlohmann::json& config) {
  config["model_type"] = "distilbert";
  config["n_layers"] = options.layers;
  config["n_heads"] = options.heads;
  config["dim"] = options.width;
  config["hidden_dim"] = options.hidden.value_or(4 * options.width);
  config["activation"] = config_name(options.activation);
  config["dropout"] = options.dropout;
  config["attention_dropout"] = options.attention_dropout.value_or(options.dropout);
  config["seq_classif_dropout"] = options.head_dropout.value_or(options.dropout);
  write_bert_head(kDistilBertKind, "DistilBert", shapes, config);
}

const RegisterPretrained<DistilBert> distilbert;

}  // namespace
}  // namespace accel
