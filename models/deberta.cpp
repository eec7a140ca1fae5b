// DeBERTa V2 and V3 (He et al., arXiv:2006.03654 and arXiv:2111.09543): BERT with disentangled
// attention. Parameter names are Hugging Face's.
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "models/bert_model.h"
#include "models/hf/register_pretrained.h"
#include "models/layers/transformer_schema.h"

namespace accel {
namespace {

constexpr auto kDebertaLacks = "this model does not do";

constexpr BertKind deberta_kind(bool legacy_head) {
  BertKind kind = {.model = "deberta",
                   .base = "deberta",
                   .query = "attention.self.query_proj",
                   .key = "attention.self.key_proj",
                   .value = "attention.self.value_proj",
                   .pooled = "pooler.dense",
                   .classifier = "classifier",
                   .transform = "cls.predictions.transform.dense",
                   .transform_norm = "cls.predictions.transform.LayerNorm",
                   .token_bias = "cls.predictions.bias",
                   .pooled_activation = HfActivation::kGelu,
                   .has_segments = false,
                   .has_relative = true,
                   .pads_embedding = true,
                   .labels_drop_alike = false};
  if (legacy_head) return kind;
  kind.transform = "lm_predictions.lm_head.dense";
  kind.transform_norm = "lm_predictions.lm_head.LayerNorm";
  kind.token_bias = "lm_predictions.lm_head.bias";
  return kind;
}

constexpr BertKind kDebertaKind = deberta_kind(true), kDebertaNewKind = deberta_kind(false);

const BertKind& kind_of(const BertOptions& options) {
  return options.legacy_head ? kDebertaKind : kDebertaNewKind;
}

class Deberta final : public BertModel {
 public:
  static constexpr auto kName = "deberta";
  static constexpr const char* kHintFor[] = {"deberta-v2", "deberta-v3", "debertav2"};
  static constexpr auto kSummary =
      "A DeBERTa V2 or V3 encoder of texts with a head for classes, labels, answers or hidden "
      "tokens.";
  static constexpr bool kGenerates = false;

  static Schema<BertOptions> schema();
  static bool reads(const std::string& model_type) { return model_type == "deberta-v2"; }
  static BertOptions from_config(HfConfig& config);
  static void to_config(const BertOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config);
  static HfNames names(const BertOptions& options);

  Deberta(const BertOptions& options, const ModelContext& context)
      : BertModel(kind_of(options), options, context), options_(options) {}

  TensorPlan tensor_plan(int64_t ranks) const override;
  void divide_sequences(ContextRanksPtr) override {
    throw Error(ExitCode::kRecipe, "'cp' and 'sp' do not support deberta",
                "leave 'cp' and 'sp' out");
  }
  /// All blocks read the table of relative positions, which a stage of a pipeline would have to
  /// receive.
  std::vector<Block*> chain() override {
    throw Error(ExitCode::kRecipe, "'pp' does not support deberta", "leave 'pp' out");
  }

 private:
  BertOptions options_;
};

TensorPlan Deberta::tensor_plan(int64_t ranks) const {
  TensorPlan plan = BertModel::tensor_plan(ranks);
  const RelativeOptions& relative = options_.relative;
  if (relative.share_projections) return plan;
  const std::string part = "deberta.encoder.layer.*.attention.self.";
  if (relative.content_to_position) plan.push_back({part + "pos_key_proj", TensorStyle::kColwise});
  if (relative.position_to_content) {
    plan.push_back({part + "pos_query_proj", TensorStyle::kColwise});
  }
  return plan;
}

Schema<BertOptions> Deberta::schema() {
  auto sizes = with_norm_eps(bert_sizes(kDebertaKind), "Added to a norm's variance.")
                   .field("segments", &BertOptions::segments,
                          "Number of token types (texts per sequence); 0: they have no embedding.",
                          at_least<int64_t>(0))
                   .on_resume(Change::kImpossible)
                   .field("pad", &BertOptions::pad,
                          "The padding token, whose embedding is not trained; -1: none.",
                          at_least<int64_t>(-1))
                   .on_resume(Change::kImpossible)
                   .field("relative", &BertOptions::relative, "Relative positions.")
                   .on_resume(Change::kImpossible)
                   .field("absolute_positions", &BertOptions::absolute_positions,
                          "Whether embeddings of absolute positions are added to the tokens'.")
                   .on_resume(Change::kImpossible)
                   .hint_for({"position_biased_input"})
                   .field("legacy_head", &BertOptions::legacy_head,
                          "Names of the head for masked tokens: `cls.predictions`; false: "
                          "`lm_predictions.lm_head`, those of Microsoft's DeBERTa.")
                   .on_resume(Change::kImpossible)
                   .hint_for({"legacy"});
  return with_bert_dropout(kDebertaKind, std::move(sizes));
}

/// The terms of `pos_att_type`: "p2c|c2p", or a list; none for "", [""] and null.
std::vector<std::string> terms_in(HfConfig& config) {
  const bool is_text = config.has("pos_att_type") && config.values().at("pos_att_type").is_string();
  if (!is_text) {
    std::vector<std::string> listed = config.texts("pos_att_type");
    std::erase(listed, "");
    return listed;
  }
  const std::string all = config.text("pos_att_type", "");
  std::vector<std::string> terms;
  for (size_t at = 0; at <= all.size();) {
    const size_t end = std::min(all.find('|', at), all.size());
    const std::string term = ascii_lower(trimmed(all.substr(at, end - at)));
    if (!term.empty()) terms.push_back(term);
    at = end + 1;
  }
  return terms;
}

void read_terms(HfConfig& config, RelativeOptions& relative) {
  relative.content_to_position = relative.position_to_content = false;
  for (const std::string& term : terms_in(config)) {
    if (term == "c2p") {
      relative.content_to_position = true;
    } else if (term == "p2c") {
      relative.position_to_content = true;
    } else {
      config.refuse(
          text("'{}' has '{}' in 'pos_att_type', which {}", config.path(), term, kDebertaLacks));
    }
  }
}

bool has_terms(const RelativeOptions& relative) {
  return relative.content_to_position || relative.position_to_content;
}

RelativeOptions relative_in(HfConfig& config) {
  RelativeOptions relative;
  read_terms(config, relative);
  relative.buckets = std::max<int64_t>(0, config.integer("position_buckets", -1));
  const int64_t longest = config.integer("max_relative_positions", -1);
  if (longest >= 1) relative.max_distance = {longest};
  // Without a term there is nothing to project.
  relative.share_projections = config.flag("share_att_key", false) || !has_terms(relative);
  const std::string norm = config.text("norm_rel_ebd", "none");
  relative.norm = norm == "layer_norm";
  if (norm != "none" && !relative.norm) {
    config.refuse(
        text("'{}' has '{}' for 'norm_rel_ebd', which {}", config.path(), norm, kDebertaLacks));
  }
  return relative;
}

BertOptions Deberta::from_config(HfConfig& config) {
  const nlohmann::json& width = config.values().value("hidden_size", nlohmann::json());
  config.want("relative_attention", true, kDebertaLacks);
  if (!config.has("relative_attention")) {
    config.refuse(
        text("'{}' lacks 'relative_attention', and attention without relative positions "
             "is not supported",
             config.path()));
  }
  config.want("conv_kernel_size", 0, kDebertaLacks);
  config.want("embedding_size", width, kDebertaLacks);
  config.want("pooler_hidden_size", width, kDebertaLacks);
  config.want("pooler_hidden_act", "gelu", kDebertaLacks);
  config.want("pooler_dropout", 0, kDebertaLacks);
  BertOptions options = bert_options_in(config);
  options.segments = config.integer("type_vocab_size", 0);
  options.head_dropout = {config.number("cls_dropout", options.dropout)};
  options.norm_eps = config.number("layer_norm_eps", 1e-7);
  const bool has_pad = config.values().contains("pad_token_id");
  options.pad = config.integer("pad_token_id", has_pad ? -1 : 0);
  options.relative = relative_in(config);
  options.absolute_positions = config.flag("position_biased_input", true);
  options.legacy_head = config.flag("legacy", true);
  return options;
}

void Deberta::to_config(const BertOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config) {
  config["model_type"] = "deberta-v2";
  write_bert_options(options, config);
  config.erase("classifier_dropout");
  config["cls_dropout"] = options.head_dropout.value_or(options.dropout);
  if (options.max_seq_len) config["max_position_embeddings"] = *options.max_seq_len;
  write_bert_head(kind_of(options), "DebertaV2", shapes, config);
  const RelativeOptions& relative = options.relative;
  config["relative_attention"] = true;
  config["pos_att_type"] = nlohmann::json::array();
  if (relative.position_to_content) config["pos_att_type"].push_back("p2c");
  if (relative.content_to_position) config["pos_att_type"].push_back("c2p");
  config["position_buckets"] = relative.buckets > 0 ? relative.buckets : -1;
  config["max_relative_positions"] = relative.max_distance.value_or(-1);
  if (has_terms(relative) || !config.contains("share_att_key")) {
    config["share_att_key"] = relative.share_projections;
  }
  config["norm_rel_ebd"] = relative.norm ? "layer_norm" : "none";
  config["position_biased_input"] = options.absolute_positions;
  config["legacy"] = options.legacy_head;
  config["pad_token_id"] = options.pad < 0 ? nlohmann::json() : nlohmann::json(options.pad);
}

HfNames Deberta::names(const BertOptions&) {
  HfNames names = {"deberta.",
                   {},
                   {"*.position_ids", "*.position_embeddings.weight", "cls.*", "lm_predictions.*",
                    "mask_predictions.*", "pooler.*", "classifier.*", "qa_outputs.*"},
                   {"cls.*", "lm_predictions.*", "pooler.*", "classifier.*", "qa_outputs.*"}};
  names.tied_head = {"cls.predictions.decoder.weight", "deberta.embeddings.word_embeddings.weight"};
  return names;
}

const RegisterPretrained<Deberta> deberta;

}  // namespace
}  // namespace accel
