#include "compat/trainers/fp8_readings.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/text.h"

namespace accel {
namespace {

constexpr auto kConverters = "model.converters";

/// The section's names in torchtitan's versions.
constexpr std::string_view kSections[] = {"float8.", "quantize.linear.float8."};

/// Layers by torchtitan's names. The head, 'output', always stays in bf16.
constexpr std::pair<std::string_view, const char*> kTitanLayers[] = {{"output", ""},
                                                                     {"wq", "*.q_proj"},
                                                                     {"wk", "*.k_proj"},
                                                                     {"wv", "*.v_proj"},
                                                                     {"wo", "*.o_proj"},
                                                                     {"attention.wq", "*.q_proj"},
                                                                     {"attention.wk", "*.k_proj"},
                                                                     {"attention.wv", "*.v_proj"},
                                                                     {"attention.wo", "*.o_proj"},
                                                                     {"w1", "*.gate_proj"},
                                                                     {"w2", "*.down_proj"},
                                                                     {"w3", "*.up_proj"},
                                                                     {"attention", "*.self_attn.*"},
                                                                     {"feed_forward", "*.mlp.*"}};

/// The items of a list, or of a text with commas.
std::vector<std::string> words_of(const Node& node) {
  std::vector<std::string> out;
  if (node.list()) {
    for (const Node& item : *node.list()) {
      if (item.scalar()) out.push_back(item.scalar()->text);
    }
    return out;
  }
  const std::string all = node.scalar() ? node.scalar()->text : "";
  for (size_t begin = 0; begin < all.size();) {
    const size_t end = std::min(all.find(',', begin), all.size());
    out.push_back(trimmed(all.substr(begin, end - begin)));
    begin = end + 1;
  }
  return out;
}

/// The first of the section's names that the config has, or the newest.
std::string titan_key(const TrainerConfig& config, const char* name) {
  for (const std::string_view section : kSections) {
    const std::string key = std::string(section).append(name);
    if (config.find(key)) return key;
  }
  return std::string(kSections[1]).append(name);
}

/// torchtitan converts the first and the last layer too.
void read_titan_filter(TrainerConfig& config) {
  const std::string key = titan_key(config, "filter_fqns");
  const Node::Entry* entry = config.find(key);
  Node::List patterns;
  for (const std::string& name : entry ? words_of(entry->node) : std::vector<std::string>()) {
    const auto* layer = std::find_if(std::begin(kTitanLayers), std::end(kTitanLayers),
                                     [&](const auto& item) { return item.first == name; });
    if (layer == std::end(kTitanLayers)) {
      config.skip(
          key, text("'{}' has no counterpart: write patterns in 'accelerator.fp8.filter'", name));
      break;
    }
    if (*layer->second) patterns.push_back(scalar_node(layer->second, true));
  }
  config.set("accelerator.fp8.filter", {std::move(patterns), {}}, key);
}

void read_gather(TrainerConfig& config, const std::string& key) {
  const Node* recipe = config.value_of("accelerator.fp8.recipe");
  if (!recipe || !config.flag(key)) return;
  if (recipe->scalar()->text != "tensorwise") {
    config.skip(key, "torchao gathers the weights of 'tensorwise' alone in fp8");
  } else if (!config.has("accelerator.fsdp.stage")) {
    config.skip(key, "it has no effect without sharding");
  } else {
    config.set_text("accelerator.fp8.all_gather", "true", key);
  }
}

}  // namespace

bool read_titan_fp8(TrainerConfig& config) {
  const Node::Entry* converters = config.find(kConverters);
  if (!converters) return false;
  bool is_on = false;
  for (const std::string& name : words_of(converters->node)) {
    const bool is_fp8 = name == "float8" || name == "quantize.linear.float8";
    is_on = is_on || is_fp8;
    if (!is_fp8) config.skip(kConverters, text("the converter '{}' is not available", name));
  }
  if (!is_on) return false;
  config.set_text("accelerator.mixed_precision", "fp8", kConverters);
  const std::string recipe = titan_key(config, "recipe_name");
  const std::string name = config.text(recipe).value_or("tensorwise");
  config.set_text("accelerator.fp8.recipe", name == "rowwise_with_gw_hp" ? "rowwise_gw_hp" : name,
                  recipe);
  read_titan_filter(config);
  return true;
}

void read_axolotl_fp8(TrainerConfig& config) {
  if (!config.flag("fp8")) return;
  config.set_text("accelerator.mixed_precision", "fp8", "fp8");
  config.set_text("accelerator.fp8.recipe", "tensorwise", "fp8");
  read_gather(config, "fp8_enable_fsdp_float8_all_gather");
}

void read_titan_fp8_gather(TrainerConfig& config) {
  read_gather(config, titan_key(config, "enable_fsdp_float8_all_gather"));
}

}  // namespace accel
