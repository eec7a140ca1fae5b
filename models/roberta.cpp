// RoBERTa and its kin (XLM-RoBERTa, CamemBERT): BERT with positions that skip what fills, and with
// other heads. Parameters are named as Hugging Face's.
#include <nlohmann/json.hpp>

#include "models/bert_model.h"

namespace accel {
namespace {

constexpr BertKind kRobertaKind = {.model = "roberta",
                                   .base = "roberta",
                                   .blocks = "encoder.layer",
                                   .query = "attention.self.query",
                                   .key = "attention.self.key",
                                   .value = "attention.self.value",
                                   .attended = "attention.output.dense",
                                   .attended_norm = "attention.output.LayerNorm",
                                   .inner = "intermediate.dense",
                                   .outer = "output.dense",
                                   .outer_norm = "output.LayerNorm",
                                   .pooled = "classifier.dense",
                                   .classifier = "classifier.out_proj",
                                   .transform = "lm_head.dense",
                                   .transform_norm = "lm_head.layer_norm",
                                   .token_bias = "lm_head.bias",
                                   .pooled_activation = HfActivation::kTanh,
                                   .token_activation = HfActivation::kGelu,
                                   .has_segments = true,
                                   .skips_pads = true,
                                   .drops_attended = true,
                                   .drops_before_pooling = true,
                                   .labels_drop_alike = true};

/// The architectures of a `model_type` begin with this.
struct RobertaName {
  const char* model_type;
  const char* prefix;
};

constexpr RobertaName kRobertaNames[] = {
    {"roberta", "Roberta"}, {"xlm-roberta", "XLMRoberta"}, {"camembert", "Camembert"}};

const RobertaName* roberta_name(const std::string& model_type) {
  for (const RobertaName& name : kRobertaNames) {
    if (name.model_type == model_type) return &name;
  }
  return nullptr;
}

class Roberta final : public BertModel {
 public:
  static constexpr auto kName = "roberta";
  static constexpr auto kSummary =
      "A RoBERTa encoder of texts with a head for classes, labels or hidden tokens.";
  static constexpr bool kGenerates = false;

  static Schema<BertOptions> schema() {
    return with_bert_dropout(
        kRobertaKind,
        bert_sizes(kRobertaKind)
            .field("epsilon", &BertOptions::epsilon, "Added to a norm's variance.", more_than(0.0))
            .on_resume(Change::kImpossible)
            .field("pad", &BertOptions::pad,
                   "The token that fills: it is never trained, and the first other one has the "
                   "position behind it.",
                   at_least<int64_t>(0))
            .on_resume(Change::kImpossible));
  }
  static bool reads(const std::string& model_type) { return roberta_name(model_type) != nullptr; }
  static BertOptions from_config(HfConfig& config);
  static void to_config(const BertOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config);
  static HfNames names(const BertOptions&) {
    return {"roberta.",
            {},
            {"*.position_ids", "lm_head.*", "classifier.*", "roberta.pooler.*"},
            {"lm_head.*", "classifier.*"}};
  }

  Roberta(const BertOptions& options, const ModelContext& context)
      : BertModel(kRobertaKind, options, context) {}
};

BertOptions Roberta::from_config(HfConfig& config) {
  BertOptions options = bert_options_in(config);
  options.pad = config.integer("pad_token_id", 1);
  const int64_t rows = *options.context;
  options.context = {rows - first_position(kRobertaKind, options)};
  if (*options.context < 1) {
    config.refuse("'" + config.path() + "' has " + std::to_string(rows) +
                  " for 'max_position_embeddings', of which 'pad_token_id' " +
                  std::to_string(options.pad) + " leaves none");
  }
  return options;
}

void Roberta::to_config(const BertOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config) {
  const RobertaName* name = roberta_name(config.value("model_type", ""));
  if (!name) name = &kRobertaNames[0];
  config["model_type"] = name->model_type;
  config["pad_token_id"] = options.pad;
  write_bert_options(options, config);
  write_bert_head(kRobertaKind, name->prefix, shapes, config);
}

const RegisterPretrained<Roberta> roberta;

}  // namespace
}  // namespace accel
