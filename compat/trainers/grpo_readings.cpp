#include "compat/trainers/grpo_readings.h"

#include <cmath>

#include "compat/accelerate/accelerate_keys.h"
#include "compat/trainers/data_readings.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"

namespace accel {
namespace {

constexpr double kDefaultGenerations = 8;

double generations_of(const TrainerConfig& config) {
  return config.number("num_generations").value_or(kDefaultGenerations);
}

/// Keys with one name in TRL and in the task.
constexpr const char* kSameKeys[] = {"num_generations",
                                     "max_completion_length",
                                     "temperature",
                                     "top_p",
                                     "top_k",
                                     "min_p",
                                     "repetition_penalty",
                                     "beta",
                                     "mask_truncated_completions",
                                     "log_completions",
                                     "importance_sampling_level",
                                     "loss_type",
                                     "reward_weights"};

void read_reward_scale(TrainerConfig& config) {
  const auto given = config.text("scale_rewards");
  if (!given) return;
  const std::string word = ascii_lower(*given);
  const std::string scale = word == "true" ? "group" : word == "false" ? "none" : word;
  config.set_text("task.scale_rewards", scale, "scale_rewards");
}

void read_grpo_data(TrainerConfig& config) {
  const char* key = config.find("dataset_name") ? "dataset_name" : "dataset_id_or_path";
  const auto name = config.text(key);
  if (!name) return config.miss("'data': the recipe has none");
  DataFile file;
  file.kind = DataFile::Kind::kPrompts;
  file.path = *name;
  file.split = config.text("dataset_train_split").value_or("");
  file.subset = config.text("dataset_config").value_or("");
  // The script of open-r1 makes a user's message of a column.
  constexpr auto kColumn = "dataset_prompt_column";
  file.field = config.text(kColumn).value_or("");
  file.texts_as_messages = config.find(kColumn) != nullptr;
  if (config.find(kColumn)) config.take(kColumn);
  const double prompt = config.number("max_prompt_length").value_or(512);
  const double completion = config.number("max_completion_length").value_or(512);
  file.max_length = show_number(prompt + completion);
  set_datasets(config, "data.train", {file}, key);
  config.set_text("data.train.max_length", file.max_length, "max_prompt_length");
  config.take("dataset_config");
  if (config.find("shuffle_dataset") && !config.flag("shuffle_dataset")) {
    config.set_text("data.loader.shuffle", "false", "shuffle_dataset");
  }
}

}  // namespace

void check_grpo_config(TrainerConfig& config) {
  const std::string loss = config.text("loss_type").value_or("dapo");
  if (!has_word("dapo bnpo grpo dr_grpo", loss)) config.refuse_lacking("loss_type", "rl");
  if (config.number("num_iterations").value_or(1) > 1) {
    config.refuse("num_iterations",
                  "a step of TRL is one of these updates, a step of accel-run all of them",
                  "set 'task.num_iterations' in a recipe, and divide 'train.until' by it");
  } else {
    for (const char* key : {"num_iterations", "epsilon", "epsilon_high", "delta"}) {
      if (config.find(key)) config.ignore(key);
    }
  }
  const double steps = config.number("gradient_accumulation_steps").value_or(1);
  const auto reused = config.number("steps_per_generation");
  if (reused && *reused != steps) {
    config.refuse("steps_per_generation",
                  "completions of a step are sampled by the weights of an earlier one",
                  "leave it out: each step samples its own");
  } else if (reused) {
    config.ignore("steps_per_generation");
  }
  if (config.find("generation_batch_size")) {
    config.refuse("generation_batch_size",
                  "completions of a step are sampled by the weights of an earlier one",
                  "leave it out: each step samples its own");
  }
}

void read_grpo_task(TrainerConfig& config) {
  config.put("task.type", "grpo");
  constexpr auto kRewards = "reward_funcs";
  if (config.find(kRewards)) config.skip(kRewards, "they are Python: write 'task.rewards'");
  config.miss("'task.rewards': reward functions, such as exact_match of a column");
  for (const char* key : kSameKeys) {
    const Node::Entry* entry = config.find(key);
    if (entry) config.set(std::string("task.") + key, entry->node, key);
  }
  read_reward_scale(config);
  const bool diverges = config.number("beta").value_or(0) > 0;
  if (diverges && !config.has("model.lora")) {
    config.put("task.reference.type", "auto");
    config.put("task.reference.weights", "${vars.model}");
  }
  constexpr auto kBias = "use_bias_correction_kl";
  if (config.find(kBias) && !config.flag(kBias) && diverges) {
    config.set_text("task.use_bias_correction_kl", "false", kBias);
  } else if (config.find(kBias)) {
    config.ignore(kBias);
  }
  if (config.flag("disable_dropout")) {
    config.set_text("task.dropout", "false", "disable_dropout");
  }
  read_grpo_data(config);
}

void read_grpo_batches(TrainerConfig& config) {
  constexpr auto kBatch = "per_device_train_batch_size";
  const double completions = config.number(kBatch).value_or(8);
  const double steps = config.number("gradient_accumulation_steps").value_or(1);
  const double prompts = completions * steps / generations_of(config);
  if (prompts < 1 || prompts != std::floor(prompts)) {
    return config.refuse(
        kBatch,
        text("{} completions of a step on each device are no whole number of groups of {}",
             show_number(completions * steps), show_number(generations_of(config))),
        "raise 'gradient_accumulation_steps', or lower 'num_generations'");
  }
  const double micro = completions / generations_of(config);
  const bool whole = micro >= 1 && micro == std::floor(micro);
  config.set_text("train.batch", show_number(prompts), kBatch);
  config.set_text("train.micro_batch", whole ? show_number(micro) : "1", kBatch);
  config.remark(text("{}: TRL counts completions, the recipe prompts with {} completions each",
                     kBatch, show_number(generations_of(config))));
}

}  // namespace accel
