// BERT: a bidirectional transformer with a head for classes, labels or hidden tokens. Parameters
// are named as in Hugging Face's BERT.
#include <nlohmann/json.hpp>

#include "models/bert_model.h"

namespace accel {
namespace {

constexpr BertKind kBertKind = {.model = "bert",
                                .base = "bert",
                                .blocks = "encoder.layer",
                                .query = "attention.self.query",
                                .key = "attention.self.key",
                                .value = "attention.self.value",
                                .attended = "attention.output.dense",
                                .attended_norm = "attention.output.LayerNorm",
                                .inner = "intermediate.dense",
                                .outer = "output.dense",
                                .outer_norm = "output.LayerNorm",
                                .pooled = "bert.pooler.dense",
                                .classifier = "classifier",
                                .transform = "cls.predictions.transform.dense",
                                .transform_norm = "cls.predictions.transform.LayerNorm",
                                .token_bias = "cls.predictions.bias",
                                .pooled_activation = HfActivation::kTanh,
                                .token_activation = {},
                                .has_segments = true,
                                .skips_pads = false,
                                .drops_attended = true,
                                .drops_before_pooling = false,
                                .labels_drop_alike = true};

class Bert final : public BertModel {
 public:
  static constexpr auto kName = "bert";
  static constexpr auto kSummary =
      "A BERT encoder of texts with a head for classes, labels or hidden tokens.";
  static constexpr bool kGenerates = false;

  static Schema<BertOptions> schema() {
    return with_bert_dropout(kBertKind, bert_sizes(kBertKind)
                                            .field("epsilon", &BertOptions::epsilon,
                                                   "Added to a norm's variance.", more_than(0.0))
                                            .on_resume(Change::kImpossible));
  }
  static bool reads(const std::string& model_type) { return model_type == "bert"; }
  static BertOptions from_config(HfConfig& config) { return bert_options_in(config); }
  static void to_config(const BertOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config) {
    config["model_type"] = "bert";
    write_bert_options(options, config);
    write_bert_head(kBertKind, "Bert", shapes, config);
  }
  static HfNames names(const BertOptions&) {
    return {"bert.",
            {},
            {"*.position_ids", "cls.*", "classifier.*", "bert.pooler.*"},
            {"cls.*", "classifier.*", "bert.pooler.*"}};
  }

  Bert(const BertOptions& options, const ModelContext& context)
      : BertModel(kBertKind, options, context) {}
};

const RegisterPretrained<Bert> bert;

}  // namespace
}  // namespace accel
