// RoBERTa, XLM-RoBERTa and CamemBERT: BERT with positions that skip padding, and with other heads.
// Parameter names are Hugging Face's.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "models/bert_model.h"
#include "models/hf/register_pretrained.h"
#include "models/layers/transformer_schema.h"

namespace accel {
namespace {

constexpr BertKind kRobertaKind = {.model = "roberta",
                                   .base = "roberta",
                                   .pooled = "classifier.dense",
                                   .classifier = "classifier.out_proj",
                                   .transform = "lm_head.dense",
                                   .transform_norm = "lm_head.layer_norm",
                                   .token_bias = "lm_head.bias",
                                   .token_activation = HfActivation::kGelu,
                                   .skips_pads = true,
                                   .drops_before_pooling = true};

/// Prefix of the architectures of a `model_type`.
struct RobertaName {
  const char* model_type;
  const char* prefix;
  bool encoder_last;  ///< transformers registers the encoder after the head
};

constexpr RobertaName kRobertaNames[] = {{"roberta", "Roberta", false},
                                         {"xlm-roberta", "XLMRoberta", true},
                                         {"camembert", "Camembert", true}};

const RobertaName* roberta_name(const std::string& model_type) {
  for (const RobertaName& name : kRobertaNames) {
    if (name.model_type == model_type) return &name;
  }
  return nullptr;
}

/// The name of the model in `folder`; null without such a folder.
const RobertaName* name_in_folder(const std::string& folder) {
  std::error_code error;
  if (folder.empty() || !std::filesystem::exists(folder + "/config.json", error)) return nullptr;
  return roberta_name(HfConfig(folder).model_type());
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
        with_norm_eps(bert_sizes(kRobertaKind), "Added to a norm's variance.")
            .field("pad", &BertOptions::pad,
                   "The padding token: it is never trained, and positions start after it.",
                   at_least<int64_t>(0))
            .on_resume(Change::kImpossible));
  }
  static bool reads(const std::string& model_type) { return roberta_name(model_type) != nullptr; }
  static BertOptions from_config(HfConfig& config);
  static void to_config(const BertOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config);
  static HfNames names(const BertOptions& options);

  Roberta(const BertOptions& options, const ModelContext& context)
      : BertModel(kRobertaKind, options, context) {}
};

HfNames Roberta::names(const BertOptions& options) {
  HfNames names = {
      "roberta.",
      {},
      {"*.position_ids", "lm_head.*", "classifier.*", "qa_outputs.*", "roberta.pooler.*"},
      {"lm_head.*", "classifier.*", "qa_outputs.*"},
      nullptr,
      {.later = {{"position_embeddings", "LayerNorm"}}}};
  names.tied_head = {"lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"};
  const RobertaName* name = name_in_folder(options.weights.text);
  if (name && name->encoder_last) {
    names.module.later.emplace_back("roberta", "lm_head");
    names.module.later.emplace_back("roberta", "classifier");
  }
  return names;
}

BertOptions Roberta::from_config(HfConfig& config) {
  BertOptions options = bert_options_in(config);
  options.pad = config.integer("pad_token_id", 1);
  const int64_t rows = *options.max_seq_len;
  options.max_seq_len = {rows - first_position(kRobertaKind, options)};
  if (*options.max_seq_len < 1) {
    config.refuse(
        text("'{}' has {} for 'max_position_embeddings', and 'pad_token_id' {} leaves no positions",
             config.path(), rows, options.pad));
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
