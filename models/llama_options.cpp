#include "models/llama_options.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "models/hf/hf_sizes.h"
#include "models/layers/sizes.h"
#include "models/layers/transformer_schema.h"

namespace accel {
namespace {

constexpr HfSizeKeys kLlamaKeys = {.norm_eps = "rms_norm_eps"};

bool has_experts(const std::string& model_type) {
  return model_type == "mixtral" || model_type == "qwen3_moe";
}

/// Names of Mixtral's experts and routers in folders.
std::string mixtral_name(const std::string& name) {
  std::string out = name;
  const size_t mlp = out.find(".mlp.");
  if (mlp == out.npos) return out;
  out.replace(mlp, 5, ".block_sparse_moe.");
  for (const auto& [ours, theirs] :
       {std::pair(".gate_proj.", ".w1."), {".down_proj.", ".w2."}, {".up_proj.", ".w3."}}) {
    if (const size_t at = out.find(ours); at != out.npos) {
      out.replace(at, std::string_view(ours).size(), theirs);
    }
  }
  return out;
}

/// The place of an expert's weight in "mlp.experts.gate_up_proj" and "mlp.experts.down_proj".
std::optional<HfFusedPlace> fused_expert(const std::string& name) {
  constexpr std::string_view kList = ".mlp.experts.", kEnd = ".weight";
  const size_t list = name.find(kList);
  if (list == name.npos || !name.ends_with(kEnd)) return std::nullopt;
  const size_t number = list + kList.size(), dot = name.find('.', number);
  const std::string layer = name.substr(dot + 1, name.size() - kEnd.size() - dot - 1);
  const std::string fused = layer == "down_proj" ? layer : "gate_up_proj";
  const size_t column = layer == "up_proj" ? 1 : 0;
  return HfFusedPlace{name.substr(0, number) + fused, std::stoul(name.substr(number, dot - number)),
                      column};
}

void check_llama(const LlamaOptions& options, const Node& node, Reading& reading) {
  const NamedSize heads = {"num_heads", options.num_heads};
  const bool whole = options.head_dim ||
                     check_multiple({"hidden_size", options.hidden_size}, heads, node, reading);
  if (whole && options.per_head() % 2 != 0) {
    reading.problems.error(node.where,
                           text("a head's width must be even, not {}", options.per_head()));
  }
  check_multiple(heads, {"num_kv_heads", options.groups()}, node, reading);
  if (options.has_score() && options.lora.rank > 0 && !options.lora.modules_to_save) {
    reading.problems.error(node.where, "an adapter would leave the head 'score' untrained",
                           "add 'modules_to_save: [score.*]' to 'lora', as PEFT does");
  }
  if (options.router_aux_loss_coef && options.moe.num_experts == 0) {
    reading.problems.error(node.where, "'router_aux_loss_coef' has no effect without experts",
                           "set 'moe.num_experts', or leave it out");
  }
}

/// Throws Error (kRecipe) for combinations of options that no model of transformers has.
void check_transformers_has(const LlamaOptions& options) {
  const MoeOptions& moe = options.moe;
  if (moe.bias_update_rate > 0) {
    throw Error(ExitCode::kRecipe,
                "transformers' Mixtral and Qwen3-MoE have no bias of experts: "
                "'moe.bias_update_rate'",
                "train with 'router_aux_loss_coef' instead");
  }
  const LlamaBias bias = options.attention_bias;
  const bool qwen3 = options.qk_norm && !options.mlp_bias && bias != LlamaBias::kInputs;
  const bool qwen2 = !options.qk_norm && !options.mlp_bias && bias == LlamaBias::kInputs;
  const bool llama = !options.qk_norm && bias != LlamaBias::kInputs;
  const bool mixtral = llama && !options.mlp_bias && bias == LlamaBias::kNone &&
                       moe.norm_topk_prob && moe.is_everywhere();
  if (moe.num_experts > 0) {
    if (qwen3 || mixtral) return;
    throw Error(ExitCode::kRecipe,
                "transformers has no model with experts and these options: 'attention_bias', "
                "'mlp_bias', 'qk_norm', 'moe'",
                "Mixtral has none of the first three, experts in all layers and "
                "'moe.norm_topk_prob'; Qwen3-MoE has 'qk_norm' and no 'mlp_bias'");
  }
  if (qwen3 || qwen2 || llama) return;
  throw Error(ExitCode::kRecipe,
              "transformers has no model with these options: 'attention_bias', 'mlp_bias', "
              "'qk_norm'",
              "Qwen3 has 'qk_norm' and no 'mlp_bias', Qwen2 'attention_bias: qkv' alone");
}

constexpr std::string_view kScoreSuffix = "ForSequenceClassification";

constexpr auto kNotBuilt = "this model does not do";

/// Attention over fewer tokens than the model's longest sequence.
void refuse_windows(HfConfig& config, bool is_mistral, int64_t max_seq_len) {
  bool slides = is_mistral || config.flag("use_sliding_window", false);
  for (const std::string& layer : config.texts("layer_types")) {
    slides = slides || layer == "sliding_attention";
    if (layer == "full_attention" || layer == "sliding_attention") continue;
    config.refuse(
        text("'{}' has '{}' in 'layer_types', which {}", config.path(), layer, kNotBuilt));
  }
  config.ignore({"sliding_window", "max_window_layers"});
  if (slides && config.integer("sliding_window", max_seq_len) < max_seq_len) {
    config.want("sliding_window", nullptr, kNotBuilt);
  }
}

}  // namespace

Schema<LlamaOptions> LlamaOptions::schema() {
  using Options = LlamaOptions;
  const auto count = at_least<int64_t>(1);
  auto heads =
      transformer_schema<Options>("Maximum sequence length.")
          .field("num_kv_heads", &Options::num_kv_heads,
                 "Key and value heads (grouped-query attention); auto: num_heads.",
                 if_given<Auto>(count))
          .on_resume(Change::kImpossible)
          .renamed_from("kv_heads")
          .hint_for({"num_key_value_heads", "n_kv_heads"})
          .field("head_dim", &Options::head_dim,
                 "Features in a head; auto: hidden_size / num_heads.", if_given<Auto>(count))
          .on_resume(Change::kImpossible)
          .renamed_from("head_width");
  auto sizes =
      with_sizes(std::move(heads), "Features inside the MLP; auto: 8/3 of the hidden size.")
          .field("activation", &Options::activation, "Activation of the MLP's gate.")
          .on_resume(Change::kImpossible);
  auto kinds = with_norm_eps(std::move(sizes), "Added to a norm's mean square.")
                   .field("rope", &Options::rope, "Rotary position embedding.")
                   .on_resume(Change::kImpossible)
                   .field("attention_bias", &Options::attention_bias,
                          "Attention layers with a bias; Qwen2: qkv.")
                   .on_resume(Change::kImpossible)
                   .field("mlp_bias", &Options::mlp_bias, "Whether the MLP's layers have a bias.")
                   .on_resume(Change::kImpossible)
                   .field("qk_norm", &Options::qk_norm,
                          "Whether queries and keys are normalised, as in Qwen3.")
                   .on_resume(Change::kImpossible)
                   .renamed_from("query_norm")
                   .hint_for({"use_qk_norm"});
  kinds = with_num_classes(
      with_tie_embeddings(std::move(kinds)),
      "Outputs per text, read from its last token by a linear layer in place of the language "
      "model's head: classes, or 1 for a reward model. auto: as the folder, else a language model.",
      1);
  return with_weights(std::move(kinds)
                          .field("moe", &Options::moe, "Mixture of experts in place of MLPs.")
                          .on_resume(Change::kImpossible)
                          .field("router_aux_loss_coef", &Options::router_aux_loss_coef,
                                 "Weight of the load-balancing loss, which is added to the task's "
                                 "loss in training; auto: 0.01 with experts, 0 with "
                                 "`moe.bias_update_rate`. Larger values use "
                                 "experts more evenly; 0: no such loss.",
                                 if_given<Auto>(at_least(0.0)))
                          .hint_for({"aux_loss_coef", "moe_aux_loss_coef"})
                          .field("attention_dropout", &Options::attention_dropout,
                                 "Dropout of attention weights.", within(0.0, 1.0))
                          .check(&check_llama));
}

bool LlamaOptions::reads(const std::string& model_type) {
  return model_type == "llama" || model_type == "mistral" || model_type == "qwen2" ||
         model_type == "qwen3" || has_experts(model_type);
}

LlamaOptions LlamaOptions::from_config(HfConfig& config) {
  const std::string type = config.model_type();
  LlamaOptions options;
  options.vocab_size = {config.integer("vocab_size")};
  options.max_seq_len = {config.integer("max_position_embeddings", 2048)};
  if (type == "mixtral") options.norm_eps = 1e-5;
  read_hf_sizes(config, kLlamaKeys, options);
  options.num_kv_heads = {config.integer("num_key_value_heads", options.num_heads)};
  const int64_t even = options.num_heads > 0 ? options.hidden_size / options.num_heads : 0;
  options.head_dim = {config.integer("head_dim", type == "qwen3" ? 128 : even)};
  options.rope = RopeOptions::from_config(config);
  const bool usual_rope = !config.has("rope_theta") && !config.has("rope_parameters");
  if (type == "mixtral" && usual_rope) options.rope.theta = 1e6;
  const bool mistral = type == "mistral" || type == "mixtral";
  const bool biased = !mistral && type != "qwen2" && config.flag("attention_bias", false);
  if (biased) options.attention_bias = LlamaBias::kAll;
  if (type == "qwen2") options.attention_bias = LlamaBias::kInputs;
  options.mlp_bias = type == "llama" && config.flag("mlp_bias", false);
  options.qk_norm = type == "qwen3" || type == "qwen3_moe";
  if (has_experts(type)) {
    options.moe = MoeOptions::from_config(config);
    const double balance = config.number("router_aux_loss_coef", 0.001);
    // transformers adds the loss only with this.
    options.router_aux_loss_coef = {config.flag("output_router_logits", false) ? balance : 0.0};
  }
  options.tie_embeddings = config.flag("tie_word_embeddings", false);
  options.attention_dropout = config.number("attention_dropout", 0.0);
  for (const std::string& name : config.texts("architectures")) {
    if (name.ends_with(kScoreSuffix)) options.num_classes = {label_count(config)};
  }
  refuse_windows(config, mistral, *options.max_seq_len);
  config.ignore({"is_llama_config", "max_sequence_length"});
  return options;
}

void LlamaOptions::to_config(const WeightShapes& shapes, nlohmann::json& config) const {
  check_transformers_has(*this);
  const bool plain = attention_bias == LlamaBias::kNone && !mlp_bias;
  std::string type = "llama", name = "LlamaForCausalLM";
  if (moe.num_experts > 0) {
    type = qk_norm ? "qwen3_moe" : "mixtral";
    name = qk_norm ? "Qwen3MoeForCausalLM" : "MixtralForCausalLM";
  } else if (qk_norm) {
    type = "qwen3", name = "Qwen3ForCausalLM";
  } else if (attention_bias == LlamaBias::kInputs) {
    type = "qwen2", name = "Qwen2ForCausalLM";
  } else if (plain && config.value("model_type", "") == "mistral") {
    type = "mistral", name = "MistralForCausalLM";
  }
  if (has_score()) {
    name.replace(name.find("For"), name.npos, kScoreSuffix);
    write_labels(*num_classes, config);
  }
  config["model_type"] = type;
  config["architectures"] = {name};
  config["vocab_size"] = shapes.at("model.embed_tokens.weight").at(0);
  if (max_seq_len) config["max_position_embeddings"] = *max_seq_len;
  write_hf_sizes(*this, inner(), kLlamaKeys, config);
  if (moe.num_experts > 0) {
    moe.to_config(expert_inner(), config);
    config["output_router_logits"] = balance() > 0;
    if (balance() > 0) config["router_aux_loss_coef"] = balance();
  }
  config["num_key_value_heads"] = groups();
  config["head_dim"] = per_head();
  rope.to_config(config);
  config["attention_bias"] = attention_bias == LlamaBias::kAll;
  config["mlp_bias"] = mlp_bias;
  config["tie_word_embeddings"] = tie_embeddings;
  config["attention_dropout"] = attention_dropout;
}

HfNames LlamaOptions::names() const {
  HfNames names{"model.", {}, {"*.rotary_emb.inv_freq"}};
  if (moe.num_experts > 0) {
    if (!qk_norm) names.stored = &mixtral_name;
    if (qk_norm) names.module.later = {{"gate", "experts"}};
    names.module.fused = &fused_expert;
  }
  if (has_score()) names.heads.push_back("score.weight");
  (tie_embeddings || has_score() ? names.unused : names.heads).push_back("lm_head.weight");
  return names;
}

}  // namespace accel
