// DistilBERT: BERT without token types. Parameter names are those of Hugging Face's DistilBERT.
#include <nlohmann/json.hpp>

#include "models/bert_model.h"
#include "models/hf/hf_sizes.h"
#include "models/hf/register_pretrained.h"

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
                                      .has_segments = false,
                                      .drops_attended = false,
                                      .labels_drop_alike = false,
                                      .drops_before_span = true};

constexpr HfSizeKeys kDistilBertKeys = {.num_layers = "n_layers",
                                        .num_heads = "n_heads",
                                        .hidden_size = "dim",
                                        .intermediate_size = "hidden_dim",
                                        .activation = "activation",
                                        .norm_eps = nullptr};

class DistilBert final : public BertModel {
 public:
  static constexpr auto kName = "distilbert";
  static constexpr auto kSummary =
      "A DistilBERT encoder of texts with a head for classes, labels or hidden tokens.";
  static constexpr bool kGenerates = false;

  static Schema<BertOptions> schema() {
    return with_bert_dropout(kDistilBertKind, with_text_pad(bert_sizes(kDistilBertKind)));
  }
  static bool reads(const std::string& model_type) { return model_type == "distilbert"; }
  static BertOptions from_config(HfConfig& config);
  static void to_config(const BertOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config);
  static HfNames names(const BertOptions&) {
    HfNames names = {
        "distilbert.",
        {},
        {"*.position_ids", "vocab_*", "pre_classifier.*", "classifier.*", "qa_outputs.*"},
        {"vocab_*", "pre_classifier.*", "classifier.*", "qa_outputs.*"},
        nullptr,
        {.later = {{"vocab_projector", "vocab_layer_norm"}}}};
    names.tied_head = {"vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"};
    return names;
  }

  DistilBert(const BertOptions& options, const ModelContext& context)
      : BertModel(kDistilBertKind, options, context) {}
};

BertOptions DistilBert::from_config(HfConfig& config) {
  config.want("tie_word_embeddings", true, "this model does not do");
  // The position embeddings are weights of the folder in any case.
  config.ignore({"sinusoidal_pos_embds", "tie_weights_"});
  BertOptions options;
  options.vocab_size = {config.integer("vocab_size")};
  options.max_seq_len = {config.integer("max_position_embeddings", 512)};
  read_hf_sizes(config, kDistilBertKeys, options);
  options.dropout = config.number("dropout", 0.1);
  options.attention_dropout = {config.number("attention_dropout", 0.1)};
  options.head_dropout = {config.number("seq_classif_dropout", 0.2)};
  options.span_dropout = {config.number("qa_dropout", 0.1)};
  options.num_classes = bert_classes_in(config);
  options.problem_type = problem_type_in(config);
  options.text_pad = text_pad_in(config);
  return options;
}

void DistilBert::to_config(const BertOptions& options, const WeightShapes& shapes,
                           nlohmann::json& config) {
  config["model_type"] = "distilbert";
  const int64_t intermediate_size = options.intermediate_size.value_or(4 * options.hidden_size);
  write_hf_sizes(options, intermediate_size, kDistilBertKeys, config);
  write_text_pad(options, config);
  config["dropout"] = options.dropout;
  config["attention_dropout"] = options.attention_dropout.value_or(options.dropout);
  config["seq_classif_dropout"] = options.head_dropout.value_or(options.dropout);
  config["qa_dropout"] = options.span_dropout.value_or(options.dropout);
  write_bert_head(kDistilBertKind, "DistilBert", shapes, config);
}

const RegisterPretrained<DistilBert> distilbert;

}  // namespace
}  // namespace accel
