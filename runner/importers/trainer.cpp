// Hugging Face's TrainingArguments, as `to_json_string()` writes them.
#include "core/scalar.h"
#include "runner/importers/import_recipe.h"
#include "runner/importers/shared_readings.h"
#include "runner/importers/trainer_keys.h"

namespace accel {
namespace {

constexpr ForeignKey kAcceleratorConfigKeys[] = {
    {"split_batches", ForeignKey::Use::kRead},
    {"dispatch_batches", ForeignKey::Use::kCopy, "data.loader.dispatch_batches", "false"},
    {"even_batches", ForeignKey::Use::kCopy, "data.loader.even_batches"},
    {"use_seedable_sampler", ForeignKey::Use::kNot, "the order is always the seedable sampler's",
     "true"},
    {"non_blocking", ForeignKey::Use::kIdle},
    {"gradient_accumulation_kwargs", ForeignKey::Use::kNot,
     "accumulation has no options but the number of steps"},
};

bool has_trainer_keys(const Node& tree) {
  return tree.find("per_device_train_batch_size") || tree.find("num_train_epochs");
}

void read_accelerator_config(ForeignConfig& config, Imported& out) {
  const Node::Entry* section = config.find("accelerator_config");
  if (!section || !section->node.map()) return;
  ForeignConfig inner(section->node, out, "accelerator_config.");
  if (inner.truth("split_batches")) {
    inner.set_text("data.loader.split_batches", "true", "split_batches");
  } else {
    inner.take("split_batches");
  }
  inner.settle(kAcceleratorConfigKeys);
  config.take("accelerator_config");
}

void read_trainer(const Node& tree, Imported& out) {
  ForeignConfig config(tree, out);
  read_trainer_words(config, {});
  read_trainer_rest(config);
  read_accelerator_config(config, out);
  if (config.truth("group_by_length")) {
    config.set_text("data.loader.group_by_length", "true", "group_by_length");
  }
  config.settle(trainer_keys());
  config.remark("TrainingArguments name no model and no data: add 'model' and 'data'");
}

}  // namespace

void read_trainer_rest(ForeignConfig& config) {
  const char* key = config.find("run_name") ? "run_name" : "output_dir";
  const std::string name = run_name_of(config.text(key).value_or(""));
  if (!name.empty()) config.set_text("name", name, key);
  config.take("output_dir");
  if (config.truth("use_cpu")) {
    config.set_text("accelerator.device", "cpu", "use_cpu");
  } else {
    config.take("use_cpu");
  }
  if (const auto seconds = config.text("ddp_timeout")) {
    config.set_text("accelerator.timeout", *seconds + " s", "ddp_timeout");
  }
}

const ImportPeer kTrainer = {"trainer", "Hugging Face's TrainingArguments", &has_trainer_keys,
                             &read_trainer};

}  // namespace accel
