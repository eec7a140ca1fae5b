// BERT: a bidirectional transformer encoder with a head for sequence classification, token
// classification or masked language modeling. Parameter names are those of Hugging Face's BERT.
#include <nlohmann/json.hpp>

#include "models/bert_model.h"
#include "models/hf/register_pretrained.h"
#include "models/layers/transformer_schema.h"

namespace accel {
namespace {

constexpr BertKind kBertKind = {.model = "bert",
                                .base = "bert",
                                .pooled = "bert.pooler.dense",
                                .classifier = "classifier",
                                .transform = "cls.predictions.transform.dense",
                                .transform_norm = "cls.predictions.transform.LayerNorm",
                                .token_bias = "cls.predictions.bias"};

class Bert final : public BertModel {
 public:
  static constexpr auto kName = "bert";
  static constexpr auto kSummary =
      "A BERT encoder of texts with a head for classes, labels or hidden tokens.";
  static constexpr bool kGenerates = false;

  static Schema<BertOptions> schema() {
    return with_bert_dropout(kBertKind, with_text_pad(with_norm_eps(
                                            bert_sizes(kBertKind), "Added to a norm's variance.")));
  }
  static bool reads(const std::string& model_type) { return model_type == "bert"; }
  static BertOptions from_config(HfConfig& config) {
    BertOptions options = bert_options_in(config);
    options.text_pad = text_pad_in(config);
    return options;
  }
  static void to_config(const BertOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config) {
    config["model_type"] = "bert";
    write_bert_options(options, config);
    write_text_pad(options, config);
    write_bert_head(kBertKind, "Bert", shapes, config);
  }
  static HfNames names(const BertOptions&) {
    HfNames names = {"bert.",
                     {},
                     {"*.position_ids", "cls.*", "classifier.*", "qa_outputs.*", "bert.pooler.*"},
                     {"cls.*", "classifier.*", "qa_outputs.*", "bert.pooler.*"}};
    names.tied_head = {"cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"};
    return names;
  }

  Bert(const BertOptions& options, const ModelContext& context)
      : BertModel(kBertKind, options, context) {}
};

const RegisterPretrained<Bert> bert;

}  // namespace
}  // namespace accel
