// Keys of other trainers that change the training, by their names or beside others.
#include <gtest/gtest.h>

#include "tests/unit/compat/trainers/import_texts.h"

namespace accel::import_effects_test {
namespace {

/// Whether the account of `config` has `line`.
bool accounts(const std::string& config, const std::string& line) {
  return reported("c.yaml", config).find(line + "\n") != std::string::npos;
}

TEST(ImportEffectsTest, AConstantScheduleHasNoWarmup) {
  const std::string base = "num_train_epochs: 1\nlearning_rate: 1e-4\nwarmup_ratio: 0.1\n";
  EXPECT_FALSE(accounts(base + "lr_scheduler_type: constant\n", "  warmup: 10%"));
  EXPECT_TRUE(accounts(base + "lr_scheduler_type: constant_with_warmup\n", "  warmup: 10%"));
}

TEST(ImportEffectsTest, OptimizersOfTransformersThatDifferAreRemarked) {
  const std::string base = "num_train_epochs: 1\nlearning_rate: 1e-4\n";
  EXPECT_TRUE(accounts(base + "optim: adafactor\n",
                       "  optim: steps of transformers' Adafactor have the size 'lr', torch's that "
                       "times the root mean square of the parameter: set another 'optimizer.lr'"));
  EXPECT_TRUE(accounts(base + "optim: lion_32bit\n", "  betas: [0.9, 0.999]"));
}

TEST(ImportEffectsTest, ListedLayersOfAxolotlAreAmongAllLinearOnes) {
  const std::string base =
      "base_model: m\nmicro_batch_size: 2\nadapter: lora\nlora_r: 4\nlora_target_linear: true\n";
  EXPECT_FALSE(accounts(base + "lora_target_modules: [q_proj]\n", "      - '*.q_proj'"));
  EXPECT_EQ(refusal(base + "lora_target_modules: [q_proj, lm_head]\n"),
            "6: lora_target_modules: it has other layers than those of 'lora_target_linear' | list "
            "all layers' names, without 'lora_target_linear'");
}

TEST(ImportEffectsTest, KeysThatChangeTheTrainingAreNotWithoutEffect) {
  const std::string trainer = "num_train_epochs: 1\nlearning_rate: 1e-4\n";
  const std::string tune =
      "tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, path: t}\nepochs: 1\n"
      "batch_size: 2\noptimizer: {_component_: torch.optim.AdamW, lr: 1e-4}\n";
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {trainer + "average_tokens_across_devices: false\n",
       {"average_tokens_across_devices: the loss is a mean over the tokens of all ranks"}},
      {trainer + "split_batches: true\n", {"split_batches: write 'data.loader.split_batches'"}},
      {"base_model: m\nmicro_batch_size: 2\nrl: dpo\ntrl: {beta: 0.5}\n",
       {"trl: write its options in 'task', such as 'task.beta'"}},
      {"base_model: m\nmicro_batch_size: 2\nrl: dpo\norpo_alpha: 0.3\n", {"beta: 0.3"}},
      {tune + "loss: {_component_: torch.nn.CrossEntropyLoss, label_smoothing: 0.1}\n",
       {"loss.label_smoothing: the loss is the mean cross-entropy"}},
      {trainer + "deepspeed: {scheduler: {type: WarmupLR, params: {warmup_type: log}}}\n",
       {"'deepspeed.scheduler.params.warmup_type' has no effect: warmup is linear"}},
      {"model_name_or_path: m\ndtype: bfloat16\ndataset_name: a.jsonl\n",
       {"dtype: weights have 32 bits, not those of bfloat16"}},
      {"model_name_or_path: m\ndataset_name: ./a.jsonl\ndataset_text_field: text\n"
       "dataset_train_split: test\n",
       {"data: all of './a.jsonl' is read, where the config has its split 'test'"}},
      {"trainer: {max_epochs: 3, max_steps: 500}\nmodel: {class_path: a.B}\n",
       {"until: [500 steps, 3 epochs]"}},
  };
  for (const auto& [config, lines] : cases) {
    const std::string all = reported("c.yaml", config);
    for (const std::string& line : lines) EXPECT_NE(all.find(line), std::string::npos) << all;
  }
}

}  // namespace
}  // namespace accel::import_effects_test
