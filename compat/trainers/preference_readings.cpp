#include "compat/trainers/preference_readings.h"

#include "compat/accelerate/accelerate_keys.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"

namespace accel {
namespace {

constexpr std::string_view kDpoLosses =
    "sigmoid sigmoid_norm hinge ipo robust exo_pair nca_pair bco_pair sppo_hard apo_zero apo_down";

/// Sets an option of the task to the value of `key`, or to the trainer's default.
void set_option(TrainerConfig& config, const char* option, const char* key, double usual) {
  config.set_text(std::string("task.") + option, config.text(key).value_or(show_number(usual)),
                  key);
}

void read_smoothing(TrainerConfig& config, const PreferenceMethod& method,
                    const PreferenceKeys& keys) {
  if (config.number(keys.label_smoothing).value_or(0) <= 0) return;
  const bool acts = method.task == "simpo" || has_word("robust exo_pair", method.loss_type) ||
                    (method.loss_type == "sigmoid" && keys.smooths_sigmoid);
  if (!acts && method.loss_type == "sigmoid") {
    config.remark(
        text("{}: TRL smooths the loss 'sigmoid' in versions before 1 only: write "
             "'task.label_smoothing' for that",
             keys.label_smoothing));
  }
  if (!acts) return config.ignore(keys.label_smoothing);
  set_option(config, "label_smoothing", keys.label_smoothing, 0);
}

void read_label_weights(TrainerConfig& config, const PreferenceKeys& keys) {
  for (const auto& [option, key] : {std::pair("desirable_weight", keys.desirable_weight),
                                    std::pair("undesirable_weight", keys.undesirable_weight)}) {
    if (config.find(key)) set_option(config, option, key, 1);
  }
}

/// A head of one output, which an adapter leaves to be trained in full.
void read_reward(TrainerConfig& config) {
  config.put("model.num_classes", "1");
  if (config.has("model.lora") && !config.has("model.lora.modules_to_save")) {
    config.set("model.lora.modules_to_save", {Node::List{scalar_node("score.*", true)}, {}},
               "task.type");
  }
  constexpr auto kCenter = "center_rewards_coefficient";
  if (config.find(kCenter)) set_option(config, kCenter, kCenter, 0);
}

}  // namespace

std::optional<PreferenceMethod> preference_method(const std::string& word) {
  if (word == "dpo") return PreferenceMethod{"dpo", "sigmoid"};
  if (word == "orpo" || word == "simpo") return PreferenceMethod{word, ""};
  if (word == "kto") return PreferenceMethod{"kto", "kto"};
  if (word == "apo_zero_unpaired") return PreferenceMethod{"kto", word};
  if (word == "reward") return PreferenceMethod{"reward", ""};
  if (!word.empty() && has_word(kDpoLosses, word)) return PreferenceMethod{"dpo", word};
  return std::nullopt;
}

DataFile::Kind kind_of_data(const PreferenceMethod& method) {
  return method.is_unpaired() ? DataFile::Kind::kUnpaired : DataFile::Kind::kPreference;
}

void read_preference_task(TrainerConfig& config, const PreferenceMethod& method,
                          const PreferenceKeys& keys, const char* key) {
  config.put("task.type", method.task);
  if (config.find(key)) config.take(key);
  if (method.task == "reward") return read_reward(config);
  set_option(config, "beta", keys.beta, keys.default_beta);
  const bool usual = method.loss_type == "sigmoid" || method.loss_type == "kto";
  if (method.has_reference() && !usual) config.put("task.loss_type", method.loss_type);
  if (method.has_reference() && !config.has("model.lora")) {
    config.put("task.reference.type", "auto");
    config.put("task.reference.weights", "${vars.model}");
  }
  constexpr auto kPrecompute = "precompute_ref_log_probs";
  if (method.has_reference() && config.flag(kPrecompute)) {
    config.set_text("task.precompute_ref_log_probs", "true", kPrecompute);
  }
  if (method.is_unpaired()) return read_label_weights(config, keys);
  if (method.task == "simpo") set_option(config, "gamma", keys.gamma, keys.default_gamma);
  if (method.task != "orpo") {
    const double usual = method.task == "simpo" ? keys.default_simpo_sft_weight : 0;
    const bool given = config.number(keys.sft_weight).value_or(usual) > 0;
    if (given) set_option(config, "sft_weight", keys.sft_weight, usual);
  }
  read_smoothing(config, method, keys);
}

}  // namespace accel
