#include "compat/trainers/decay_readings.h"

#include "compat/accelerate/accelerate_keys.h"
#include "compat/trainers/model_families.h"
#include "core/recipe/scalar.h"

namespace accel {
namespace {

constexpr std::string_view kModelsWithBiases = "gpt2 gpt_neox opt qwen2 qwen2_moe";
constexpr std::string_view kModelsWithout =
    "llama mistral mixtral qwen3 qwen3_moe phi3 smollm3 gemma gemma2 gemma3 gemma3_text";

bool has_biases(const std::string& model_type, const std::string& folder) {
  if (has_word(kModelsWithBiases, model_type)) {
    return value_in_folder(folder, "enable_bias") != "false";  // of Galactica
  }
  return value_in_folder(folder, "attention_bias") == "true" ||
         value_in_folder(folder, "mlp_bias") == "true";
}

}  // namespace

void read_decay_exclusions(TrainerConfig& config, const std::string& model_type,
                           const std::string& folder) {
  constexpr auto kKey = "weight_decay";
  if (config.number(kKey).value_or(0) <= 0 || config.has("model.lora")) return;
  const Node* optimizer = config.value_of("optimizer.type");
  const std::string name = optimizer && optimizer->scalar() ? optimizer->scalar()->text : "";
  const bool known = !model_type.empty() && (has_word(kModelsWithBiases, model_type) ||
                                             has_word(kModelsWithout, model_type));
  if (!known || name == "muon" || name == "galore_adamw") {
    return config.remark(
        "weight_decay: Trainer excludes biases and norms; write 'optimizer.groups' for that");
  }
  Node::List patterns = {scalar_node(model_type == "gpt2" ? "*ln_*" : "*norm.weight", true)};
  if (has_biases(model_type, folder)) patterns.push_back(scalar_node("*.bias", true));
  Node::Map group = {{"match", {}, {std::move(patterns), {}}},
                     {"weight_decay", {}, scalar_node("0")}};
  config.set("optimizer.groups", {Node::List{{std::move(group), {}}}, {}}, kKey);
}

}  // namespace accel
