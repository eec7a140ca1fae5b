#include "models/lora/lora_options.h"

#include <cmath>

namespace accel {
namespace {

void check_rank(const LoraOptions& options, const Node& node, Reading& reading) {
  if (options.rank > 0 || !options.adapter.text.empty()) return;
  const bool bare = !options.alpha && options.dropout == 0 && !options.rslora &&
                    options.target_modules == LoraOptions().target_modules &&
                    !options.modules_to_save;
  if (bare) return;
  reading.problems.error(node.where, "'lora' has no 'rank'",
                         "add 'rank: 8', or leave the section out");
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
             "Patterns of linear layers with an adapter, such as '*attn*'; never the head.")
      .on_resume(Change::kImpossible)
      .renamed_from("targets")
      .hint_for({"lora_target_modules", "lora_target"})
      .field("modules_to_save", &LoraOptions::modules_to_save,
             "Patterns of other trained parameters; auto: a classifier's head.")
      .on_resume(Change::kImpossible)
      .renamed_from("also")
      .hint_for({"lora_modules_to_save", "additional_target"})
      .field("adapter", &LoraOptions::adapter,
             "A folder that PEFT wrote, to start from: its options and its weights.")
      .on_resume(Change::kFree)
      .hint_for({"adapter_name_or_path", "lora_model_dir"})
      .check(&check_rank);
}

double LoraOptions::scale() const {
  const auto by = static_cast<double>(rank);
  return alpha.value_or(by) / (rslora ? std::sqrt(by) : by);
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
