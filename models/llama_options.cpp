#include "models/llama_options.h"

#include <algorithm>

#include "core/base/text.h"
#include "models/hf/hf_options.h"
#include "models/layers/sizes.h"
#include "models/layers/transformer_schema.h"

namespace accel {
namespace {

/// Names in folders of the parts of a block with Mixtral's experts, beside those of the model.
constexpr std::pair<std::string_view, std::string_view> kMixtralNames[] = {
    {".mlp.", ".block_sparse_moe."},
    {".gate_proj.", ".w1."},
    {".down_proj.", ".w2."},
    {".up_proj.", ".w3."},
};

std::string with_mixtral_names(std::string name, bool of_model) {
  for (const auto& [ours, theirs] : kMixtralNames) {
    const std::string_view from = of_model ? theirs : ours;
    if (const size_t at = name.find(from); at != name.npos) {
      name.replace(at, from.size(), of_model ? ours : theirs);
    } else if (ours == ".mlp.") {
      break;  // no part of a block with experts
    }
  }
  return name;
}

std::string mixtral_name(const std::string& name) {
  return with_mixtral_names(name, false);
}

std::string name_from_mixtral(const std::string& name) {
  return with_mixtral_names(name, true);
}

constexpr std::string_view kAnswersBase = "transformer.";

/// Names of weights beside a head for a span where transformers' class has its own prefix.
std::string answers_name(const std::string& name) {
  constexpr std::string_view kBase = "model.";
  return name.starts_with(kBase) ? std::string(kAnswersBase) + name.substr(kBase.size()) : name;
}

std::string name_from_answers(const std::string& name) {
  return name.starts_with(kAnswersBase) ? "model." + name.substr(kAnswersBase.size()) : name;
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

void check_windows(const LlamaOptions& options, const Node& node, Reading& reading) {
  if (!options.sliding_window && !options.layer_types.empty()) {
    reading.problems.error(node.where, "'layer_types' has no effect without 'sliding_window'",
                           "set 'sliding_window', or leave it out");
  }
  if (!options.sliding_window && options.local_rope_theta) {
    reading.problems.error(node.where, "'local_rope_theta' has no effect without 'sliding_window'",
                           "set 'sliding_window', or leave it out");
  }
  for (const int64_t layer : options.nope_layers) {
    if (layer >= 0 && layer < options.num_layers) continue;
    reading.problems.error(node.where, text("'nope_layers' has {}, the layers are 0 to {}", layer,
                                            options.num_layers - 1));
  }
}

/// Parts of a block that exclude each other.
void check_parts(const LlamaOptions& options, const Node& node, Reading& reading) {
  if (!options.fused_projections) return;
  const std::pair<bool, const char*> others[] = {
      {options.moe.num_experts > 0, "moe"},
      {options.attention_bias != LlamaBias::kNone, "attention_bias"},
      {options.mlp_bias, "mlp_bias"},
      {options.qk_norm, "qk_norm"}};
  for (const auto& [given, name] : others) {
    if (!given) continue;
    reading.problems.error(node.where,
                           text("'fused_projections' does not support '{}', as Phi-3", name),
                           "leave one of the two out");
  }
}

void check_llama(const LlamaOptions& options, const Node& node, Reading& reading) {
  const NamedSize heads = {"num_heads", options.num_heads};
  const bool whole = options.head_dim ||
                     check_multiple({"hidden_size", options.hidden_size}, heads, node, reading);
  if (whole) options.rope.check(options.per_head(), node, reading);
  check_windows(options, node, reading);
  check_parts(options, node, reading);
  check_multiple(heads, {"num_kv_heads", options.groups()}, node, reading);
  if (options.head_kind() == EncoderHead::kSpan && options.answers_base().empty()) {
    reading.problems.error(
        node.where,
        "the model 'llama' with these options has no head for a span, as in transformers",
        "use the options of Llama, Mistral, Mixtral, Qwen2, Qwen2-MoE, Qwen3 or SmolLM3");
  }
  check_decoder_head(options, node, reading);
  if (options.router_aux_loss_coef && options.moe.num_experts == 0) {
    reading.problems.error(node.where, "'router_aux_loss_coef' has no effect without experts",
                           "set 'moe.num_experts', or leave it out");
  }
}

}  // namespace

namespace {

Schema<LlamaOptions> with_windows(Schema<LlamaOptions> schema) {
  using Options = LlamaOptions;
  return std::move(schema)
      .field("sliding_window", &Options::sliding_window,
             "The last tokens that a token attends to, itself included: attention then costs the "
             "same for each token of a long text, and layers pass older tokens on. auto: as the "
             "folder, else all tokens.",
             if_given<Auto>(at_least<int64_t>(1)))
      .on_resume(Change::kImpossible)
      .hint_for({"window_size", "attention_window"})
      .field("layer_types", &Options::layer_types,
             "Which layers have the window: `sliding_attention` or `full_attention` for each, a "
             "shorter list repeats; without a list all have it.")
      .on_resume(Change::kImpossible)
      .field("local_rope_theta", &Options::local_rope_theta,
             "`rope.theta` of layers with the window, without scaling, as in Gemma 3; auto: as "
             "`rope`.",
             if_given<Auto>(more_than(1.0)))
      .on_resume(Change::kImpossible)
      .hint_for({"rope_local_base_freq"})
      .field("nope_layers", &Options::nope_layers,
             "Numbers of layers without rotary positions, from 0, as in SmolLM3.")
      .on_resume(Change::kImpossible)
      .hint_for({"no_rope_layers"});
}

Schema<LlamaOptions> with_norm_kinds(Schema<LlamaOptions> schema) {
  using Options = LlamaOptions;
  const auto cap = if_given<Auto>(more_than(0.0));
  return std::move(schema)
      .field("zero_centered_gamma", &Options::zero_centered_gamma,
             "Whether norms multiply by 1 + weight, so that weight decay draws them to 1, as in "
             "Gemma.")
      .on_resume(Change::kImpossible)
      .hint_for({"apply_layernorm_1p"})
      .field("sandwich_norms", &Options::sandwich_norms,
             "Whether the outputs of attention and MLP are normalised too, as in Gemma 2.")
      .on_resume(Change::kImpossible)
      .field("scale_embeddings", &Options::scale_embeddings,
             "Whether token embeddings are multiplied by sqrt(hidden_size), as in Gemma.")
      .on_resume(Change::kImpossible)
      .field("fused_projections", &Options::fused_projections,
             "Whether one layer computes queries, keys and values, and one gate and input of the "
             "MLP, as in Phi-3.")
      .on_resume(Change::kImpossible)
      .field("query_pre_attn_scalar", &Options::query_pre_attn_scalar,
             "Attention scores are divided by its root; auto: head_dim.", cap)
      .on_resume(Change::kImpossible)
      .field("attn_logit_softcapping", &Options::attn_logit_softcapping,
             "Bound of attention scores, by tanh, as in Gemma 2; auto: none. Attention then has "
             "no fused kernel.",
             cap)
      .on_resume(Change::kImpossible)
      .field("final_logit_softcapping", &Options::final_logit_softcapping,
             "Bound of the logits of tokens, by tanh; auto: none.", cap)
      .on_resume(Change::kImpossible)
      .field("residual_dropout", &Options::residual_dropout,
             "Dropout of the outputs of attention and MLP.", within(0.0, 1.0))
      .hint_for({"resid_pdrop"});
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
  kinds = with_norm_kinds(with_windows(std::move(kinds)));
  kinds = with_decoder_head(with_tie_embeddings(std::move(kinds)), kPadOfEmbedding);
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

bool LlamaOptions::slides(int64_t layer) const {
  if (!sliding_window) return false;
  if (layer_types.empty()) return true;
  return layer_types[static_cast<size_t>(layer) % layer_types.size()] == LlamaLayerType::kSliding;
}

bool LlamaOptions::has_positions(int64_t layer) const {
  return std::ranges::count(nope_layers, layer) == 0;
}

RopeOptions LlamaOptions::local_rope() const {
  if (!local_rope_theta) return rope;
  RopeOptions out;
  out.theta = *local_rope_theta;
  return out;
}

HfNames LlamaOptions::names() const {
  HfNames names{"model.", {}, {"*.rotary_emb.inv_freq"}};
  if (head_kind() == EncoderHead::kSpan && answers_base() == kAnswersBase) {
    names.base = std::string(kAnswersBase);
    names.other_base = "model.";
    names.stored = names.module.name = &answers_name;
    names.loaded = &name_from_answers;
  } else if (head_kind() == EncoderHead::kSpan) {
    names.other_base = std::string(kAnswersBase);
  }
  if (moe.num_experts > 0) {
    const bool is_mixtral = !qk_norm && moe.shared_expert_intermediate_size == 0;
    if (is_mixtral) {
      names.stored = &mixtral_name;
      names.loaded = &name_from_mixtral;
    }
    if (qk_norm) names.module.later = {{"gate", "experts"}};
    names.module.fused = &fused_expert;
  }
  if (has_score()) names.heads.push_back(std::string(head_layer()) + ".*");
  if (tie_embeddings && !has_score()) names.tied_table = "model.embed_tokens.weight";
  (tie_embeddings || has_score() ? names.unused : names.heads).push_back("lm_head.weight");
  return names;
}

}  // namespace accel
