#include "models/lora/lora_options.h"

#include <cmath>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/name_pattern.h"

namespace accel {
namespace {

void check_rank(const LoraOptions& options, const Node& node, Reading& reading) {
  if (options.rank > 0 || !options.adapter.text.empty()) return;
  const bool bare = !options.alpha && options.dropout == 0 && !options.rslora &&
                    options.target_modules == LoraOptions().target_modules &&
                    !options.modules_to_save && options.rank_pattern.empty() &&
                    options.alpha_pattern.empty() && !options.dora && !options.lora_bias &&
                    options.bias == LoraBias::kNone && options.init == LoraInit::kDefault;
  if (bare) return;
  reading.problems.error(node.where, "'lora' has no 'rank'",
                         "add 'rank: 8', or leave the section out");
}

void check_dora(const LoraOptions& options, const Node& node, Reading& reading) {
  if (!options.dora || !options.lora_bias) return;
  const Node::Entry* entry = node.find("lora_bias");
  reading.problems.error(entry ? entry->node.where : node.where,
                         "'dora' normalises the weights alone, so it has no 'lora_bias'",
                         "leave one of them out, as PEFT demands");
}

/// The value of the patterns that match the layer; none without one.
template <class T>
std::optional<T> value_for(const char* option, const std::map<std::string, T>& patterns,
                           const std::string& layer) {
  std::optional<T> out;
  for (const auto& [pattern, value] : patterns) {
    if (!name_matches(pattern, layer)) continue;
    if (out && *out != value) {
      throw Error(
          ExitCode::kRecipe,
          text("two patterns of 'lora.{}' give the layer '{}' different values", option, layer),
          "let each layer match one of them");
    }
    out = value;
  }
  return out;
}

}  // namespace

Schema<LoraOptions> LoraOptions::schema() {
  return Schema<LoraOptions>()
      .field("rank", &LoraOptions::rank,
             "Rows and columns between an adapter's two matrices; 0: no adapter.",
             at_least<int64_t>(0))
      .on_resume(Change::kImpossible)
      .hint_for({"r", "lora_r", "lora_rank"})
      .field("alpha", &LoraOptions::alpha, "Updates are scaled by alpha / rank; auto: the rank.",
             if_given<Auto>(more_than(0.0)))
      .hint_for({"lora_alpha"})
      .field("dropout", &LoraOptions::dropout, "Dropout of the adapter's input.", within(0.0, 1.0))
      .hint_for({"lora_dropout"})
      .field("rslora", &LoraOptions::rslora, "Scale by alpha / sqrt(rank) instead.")
      .hint_for({"use_rslora"})
      .field("target_modules", &LoraOptions::target_modules,
             "Patterns of layers with an adapter, such as '*attn*': linear layers, and embeddings "
             "and the head of a language model where a pattern ends with their names: "
             "'*embed_tokens', 'lm_head'. A classifier's head only by its full name.")
      .on_resume(Change::kImpossible)
      .renamed_from("targets")
      .hint_for({"lora_target_modules", "lora_target"})
      .field("modules_to_save", &LoraOptions::modules_to_save,
             "Patterns of other trained parameters; auto: the head, unless of a language model.")
      .on_resume(Change::kImpossible)
      .renamed_from("also")
      .hint_for({"lora_modules_to_save", "additional_target"})
      .field("rank_pattern", &LoraOptions::rank_pattern,
             "Ranks of some layers, by patterns of their names: `{'*down_proj': 16}`.")
      .on_resume(Change::kImpossible)
      .field("alpha_pattern", &LoraOptions::alpha_pattern, "Alphas of some layers, likewise.")
      .field("dora", &LoraOptions::dora,
             "DoRA (Liu et al. 2024): the adapter changes the direction of each weight row, and a "
             "trained magnitude its length. Often better at small ranks, about a third slower.")
      .on_resume(Change::kImpossible)
      .hint_for({"use_dora"})
      .field("bias", &LoraOptions::bias,
             "Biases of the base model to train: all, or those of layers with an adapter.")
      .on_resume(Change::kImpossible)
      .hint_for({"lora_train_bias"})
      .field("lora_bias", &LoraOptions::lora_bias,
             "Whether the adapter's second matrix has a bias.")
      .on_resume(Change::kImpossible)
      .field("init", &LoraOptions::init,
             "Start of the matrices. default: the second one is zero. gaussian: the first is "
             "normal. pissa: the principal part of the weight (Meng et al. 2024), olora: of its QR "
             "decomposition (Büyükakyüz 2024); these take that part from the base weight, and "
             "often converge faster.")
      .on_resume(Change::kFree)
      .hint_for({"init_lora_weights"})
      .field("adapter", &LoraOptions::adapter,
             "A folder that PEFT wrote, to start from: its options and its weights.")
      .on_resume(Change::kFree)
      .hint_for({"adapter_name_or_path", "lora_model_dir"})
      .check(&check_rank)
      .check(&check_dora);
}

double LoraOptions::scale() const {
  const auto by = static_cast<double>(rank);
  return alpha.value_or(by) / (rslora ? std::sqrt(by) : by);
}

LoraOptions LoraOptions::for_layer(const std::string& name) const {
  LoraOptions out = *this;
  out.rank = value_for("rank_pattern", rank_pattern, name).value_or(rank);
  out.alpha = {value_for("alpha_pattern", alpha_pattern, name)
                   .value_or(alpha.value_or(static_cast<double>(rank)))};
  return out;
}

std::optional<LoraOptions> lora_of(const Node& model_options) {
  const Node::Entry* entry = model_options.map() ? model_options.find("lora") : nullptr;
  if (!entry) return std::nullopt;
  Diagnostics problems;
  const Registry none;
  Reading reading{problems, none};
  LoraOptions options = LoraOptions::schema().read(entry->node, reading);
  problems.check();
  if (options.rank == 0) return std::nullopt;
  return options;
}

}  // namespace accel
