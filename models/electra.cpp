// ELECTRA (Clark et al. 2020, arXiv:2003.10555): BERT with narrow embeddings, as its discriminators
// are fine-tuned and its generators predict hidden tokens. Parameter names are Hugging Face's.
#include <nlohmann/json.hpp>

#include "models/bert_model.h"
#include "models/hf/register_pretrained.h"
#include "models/layers/transformer_schema.h"

namespace accel {
namespace {

constexpr BertKind kElectraKind = {.model = "electra",
                                   .base = "electra",
                                   .pooled = "classifier.dense",
                                   .classifier = "classifier.out_proj",
                                   .transform = "generator_predictions.dense",
                                   .transform_norm = "generator_predictions.LayerNorm",
                                   .token_bias = "generator_lm_head.bias",
                                   .pooled_activation = HfActivation::kGelu,
                                   .token_activation = HfActivation::kGelu,
                                   .projection = "embeddings_project",
                                   .pads_embedding = true,
                                   .drops_before_pooling = true};

class Electra final : public BertModel {
 public:
  static constexpr auto kName = "electra";
  static constexpr auto kSummary =
      "An ELECTRA encoder of texts with a head for classes, labels, answers or hidden tokens.";
  static constexpr bool kGenerates = false;

  static Schema<BertOptions> schema() {
    return with_bert_dropout(
        kElectraKind, with_norm_eps(bert_sizes(kElectraKind), "Added to a norm's variance.")
                          .field("pad", &BertOptions::pad,
                                 "The padding token, whose embedding is not trained; -1: none.",
                                 at_least<int64_t>(-1))
                          .on_resume(Change::kImpossible));
  }
  static bool reads(const std::string& model_type) { return model_type == "electra"; }
  static BertOptions from_config(HfConfig& config);
  static void to_config(const BertOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config);
  static HfNames names(const BertOptions&);

  Electra(const BertOptions& options, const ModelContext& context)
      : BertModel(kElectraKind, options, context) {}
};

BertOptions Electra::from_config(HfConfig& config) {
  // Of multiple choice.
  config.ignore({"summary_type", "summary_use_proj", "summary_activation", "summary_last_dropout"});
  BertOptions options = bert_options_in(config);
  options.embedding_size = {config.integer("embedding_size", 128)};
  const bool has_pad = config.values().contains("pad_token_id");
  options.pad = config.integer("pad_token_id", has_pad ? -1 : 0);
  return options;
}

void Electra::to_config(const BertOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config) {
  config["model_type"] = "electra";
  config["embedding_size"] = options.embedded();
  config["pad_token_id"] = options.pad < 0 ? nlohmann::json() : nlohmann::json(options.pad);
  write_bert_options(options, config);
  write_bert_head(kElectraKind, "Electra", shapes, config);
}

HfNames Electra::names(const BertOptions&) {
  HfNames names = {"electra.",
                   {},
                   {"*.position_ids", "*.token_type_ids", "generator_*",
                    "discriminator_predictions.*", "classifier.*", "qa_outputs.*"},
                   {"generator_*", "classifier.*", "qa_outputs.*"},
                   nullptr,
                   {.later = {{"generator_lm_head", "generator_predictions"},
                              {"generator_predictions.dense", "generator_predictions.LayerNorm"},
                              {"generator_lm_head", "generator_predictions"}}}};
  names.tied_head = {"generator_lm_head.weight", "electra.embeddings.word_embeddings.weight"};
  return names;
}

const RegisterPretrained<Electra> electra;

}  // namespace
}  // namespace accel
