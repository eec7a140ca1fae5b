#include "models/lora_options.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "models/lora_folder.h"
#include "runner/formats/hf_config.h"

namespace accel {
namespace {

using nlohmann::json;

bool is_everything(const std::vector<std::string>& patterns) {
  return patterns == LoraOptions().targets;
}

void check_rank(const LoraOptions& options, const Node& node, Reading& reading) {
  if (options.rank > 0 || !options.adapter.text.empty()) return;
  const bool bare = !options.alpha && options.dropout == 0 && !options.rslora &&
                    is_everything(options.targets) && !options.also;
  if (bare) return;
  reading.problems.error(node.where, "'lora' has no 'rank'",
                         "add 'rank: 8', or leave the section out");
}

/// An option that is the adapter's own and is given as something else.
template <class T>
void check_same(const char* key, const T& here, const T& there, const Node& node,
                Reading& reading) {
  if (here == there) return;
  const Node::Entry* entry = node.find(key);
  reading.problems.error(entry ? entry->node.where : node.where,
                         std::string("'") + key + "' is " +
                             detail::inline_text(Codec<T>::write(here)) + " here and " +
                             detail::inline_text(Codec<T>::write(there)) + " in the adapter",
                         "leave it out to take it from the adapter");
}

LoraOptions options_in(HfConfig& config) {
  constexpr auto kNotBuilt = "this program does not do";
  if (const std::string type = config.text("peft_type", ""); type != "LORA") {
    config.refuse("'" + config.path() + "' is of a '" + type + "', not of a 'LORA'");
  }
  config.want("bias", "none", kNotBuilt);
  for (const char* key : {"use_dora", "lora_bias", "use_qalora"}) {
    config.want(key, false, kNotBuilt);
  }
  for (const char* key : {"rank_pattern", "alpha_pattern"}) {
    config.want(key, json::object(), kNotBuilt);
  }
  LoraOptions options;
  options.rank = config.integer("r");
  options.alpha = {config.number("lora_alpha", 8)};
  options.dropout = config.number("lora_dropout", 0);
  options.rslora = config.flag("use_rslora", false);
  return options;
}

}  // namespace

Schema<LoraOptions> LoraOptions::schema() {
  return Schema<LoraOptions>()
      .field("rank", &LoraOptions::rank,
             "Rows and columns between an adapter's two matrices; 0: no adapter.",
             at_least<int64_t>(0))
      .on_resume(Change::kImpossible)
      .field("alpha", &LoraOptions::alpha,
             "Updates are scaled by alpha / rank; auto: as much as the rank.",
             if_given<Auto>(more_than(0.0)))
      .field("dropout", &LoraOptions::dropout, "Chance of dropping what enters an adapter.",
             within(0.0, 1.0))
      .field("rslora", &LoraOptions::rslora, "Scale by alpha / sqrt(rank) instead.")
      .field("targets", &LoraOptions::targets,
             "Patterns of linear layers that get an adapter, such as '*attn*'; never the head.")
      .on_resume(Change::kImpossible)
      .field("also", &LoraOptions::also,
             "Patterns of parameters that are trained besides; auto: a classifier's head.")
      .on_resume(Change::kImpossible)
      .field("adapter", &LoraOptions::adapter,
             "A folder that PEFT wrote, to start from: its options and its weights.")
      .on_resume(Change::kFree)
      .check(&check_rank);
}

double LoraOptions::scale() const {
  const auto by = static_cast<double>(rank);
  return alpha.value_or(by) / (rslora ? std::sqrt(by) : by);
}

LoraOptions with_adapter(const LoraOptions& given, const HfNames& names, const Node& node,
                         Reading& reading) {
  const std::string& folder = given.adapter.text;
  if (folder.empty()) return given;
  const Node::Entry* path = node.find("adapter");
  const Span where = path ? path->node.where : node.where;
  LoraOptions out;
  try {
    HfConfig config = read_adapter_config(folder);
    out = options_in(config);
    for (const std::string& problem : config.problems()) reading.problems.error(where, problem);
    const AdapterParts parts = read_adapter_parts(folder, names);
    out.targets = parts.targets;
    if (!parts.others.empty()) out.also = {parts.others};
  } catch (const Error& error) {
    reading.problems.error(where, error.what(), error.hint());
    return given;
  }
  if (given.rank > 0) check_same("rank", given.rank, out.rank, node, reading);
  if (given.alpha) check_same("alpha", *given.alpha, *out.alpha, node, reading);
  if (given.rslora) check_same("rslora", given.rslora, out.rslora, node, reading);
  if (!is_everything(given.targets)) {
    check_same("targets", given.targets, out.targets, node, reading);
  }
  if (given.also) out.also = given.also;
  if (node.find("dropout")) out.dropout = given.dropout;
  out.adapter = given.adapter;
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
