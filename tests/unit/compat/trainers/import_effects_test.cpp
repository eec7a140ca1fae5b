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

TEST(ImportEffectsTest, NumbersOfBatchesInLightningAreNotShares) {
  const auto of = [](const std::string& keys) {
    return reported("c.yaml", "seed_everything: 1\ntrainer: {max_epochs: 3, " + keys + "}\n");
  };
  const std::string part = ": write 'limit' of the dataset for it";
  for (const char* key : {"limit_train_batches", "limit_val_batches"}) {
    EXPECT_NE(of(std::string(key) + ": 1").find(std::string("trainer.") + key + part),
              std::string::npos);
    EXPECT_EQ(of(std::string(key) + ": 1.0").find(part), std::string::npos);
  }
  const std::pair<const char*, const char*> intervals[] = {
      {"val_check_interval: 1", "  every: 1 step"},
      {"val_check_interval: 1.0", "  every: 1 epoch"},
      {"val_check_interval: 0.25", "  every: 0.25 epochs"},
      {"val_check_interval: 100, accumulate_grad_batches: 4", "  every: 25 steps"},
      {"val_check_interval: 10, accumulate_grad_batches: 4",
       "  trainer.val_check_interval: 10 batches are rounded to 3 steps of 4"},
  };
  for (const auto& [keys, line] : intervals) {
    EXPECT_NE(of(keys).find(std::string(line) + "\n"), std::string::npos) << of(keys);
  }
}

TEST(ImportEffectsTest, ALeastLengthCountsBesideEarlyStopping) {
  const std::string base = "seed_everything: 1\ntrainer:\n  max_epochs: 9\n  min_epochs: 4\n";
  const std::string line = "trainer.min_epochs: early_stop may stop at any evaluation";
  EXPECT_FALSE(accounts(base, line));
  EXPECT_TRUE(
      accounts(base + "  callbacks:\n  - class_path: lightning.pytorch.callbacks.EarlyStopping\n"
                      "    init_args: {monitor: val_loss}\n",
               line));
}

TEST(ImportEffectsTest, ASchedulerOfDeepSpeedReplacesTheTrainers) {
  const std::string base =
      "num_train_epochs: 1\nlearning_rate: 1e-4\nlr_scheduler_type: cosine\n"
      "deepspeed: {optimizer: {type: AdamW, params: {lr: 1e-4}}, scheduler: {type: ";
  const std::string all = reported("c.yaml", base + "WarmupDecayLR}}\n");
  EXPECT_NE(all.find("scheduler:\n  type: linear\n"), std::string::npos) << all;
  EXPECT_NE(all.find("lr_scheduler_type: 'deepspeed.scheduler.type' of DeepSpeed decides\n"),
            std::string::npos)
      << all;
  EXPECT_EQ(all.find("is from another key"), std::string::npos) << all;
  EXPECT_EQ(reported("c.yaml", base + "WarmupCosineLR}}\n").find("of DeepSpeed decides"),
            std::string::npos);
}

TEST(ImportEffectsTest, AnOpenPrecisionOfDeepSpeedIsTheTrainers) {
  const std::string base = "num_train_epochs: 1\nlearning_rate: 1e-4\n";
  const std::string open = "deepspeed: {fp16: {enabled: auto, loss_scale: 128}}\n";
  const std::string line = "deepspeed.fp16.loss_scale: the loss scale is always dynamic";
  EXPECT_TRUE(accounts(base + "fp16: true\n" + open, line));
  EXPECT_FALSE(accounts(base + "bf16: true\n" + open, line));
  EXPECT_FALSE(accounts(base + "fp16: true\ndeepspeed: {fp16: {loss_scale: 128}}\n", line));
}

TEST(ImportEffectsTest, AConfigurationOfADatasetIsNamed) {
  const std::string line =
      "  ./name.jsonl: split 'train' of the dataset 'org/name' in its configuration 'main' as JSON "
      "Lines with the field '";
  for (const auto& [config, field] : std::vector<std::pair<std::string, std::string>>{
           {"model_name_or_path: m\ndataset_name: org/name\ndataset_text_field: text\n"
            "dataset_config: main\n",
            "text'"},
           {"base_model: m\nmicro_batch_size: 2\n"
            "datasets: [{path: org/name, type: chat_template, name: main}]\n",
            "messages'"}}) {
    EXPECT_NE(reported("c.yaml", config).find(line + field), std::string::npos)
        << reported("c.yaml", config);
  }
}

TEST(ImportEffectsTest, TextsThatOthersDivideOrCutOtherwiseAreSaid) {
  EXPECT_TRUE(
      accounts("base_model: m\nmicro_batch_size: 2\nsequence_len: 64\n"
               "datasets: [{path: a.jsonl, type: completion}]\n",
               "  datasets: axolotl divides a text of type completion that is longer than "
               "'sequence_len' into "
               "several samples; here it is cut"));
  const std::string kto =
      "model_name_or_path: m\ndataset_name: a.jsonl\ndesirable_weight: 1.5\n"
      "truncation_mode: ";
  const std::string line = "truncation_mode: a prompt with its answer is cut at its end";
  EXPECT_TRUE(accounts(kto + "keep_end\n", line));
  EXPECT_FALSE(accounts(kto + "keep_start\n", line));
  EXPECT_TRUE(accounts(
      "model_name_or_path: m\nstage: sft\nfinetuning_type: full\ndataset: a\ntemplate: llama3\n"
      "tokenized_path: t\n",
      "tokenized_path: the dataset is tokenized again: LLaMA-Factory trains on this folder if it "
      "exists"));
}

TEST(ImportEffectsTest, LossesOfTrlMayBeAList) {
  const std::string base = "model_name_or_path: m\ndataset_name: a.jsonl\nbeta: 0.2\nloss_type: ";
  EXPECT_TRUE(accounts(base + "[ipo]\n", "  loss_type: ipo"));
  EXPECT_TRUE(accounts(base + "[hinge, sft]\n", "  loss_type: hinge"));
  EXPECT_TRUE(accounts(base + "[hinge, sft]\n", "  sft_weight: 1"));
  EXPECT_FALSE(accounts(base + "[hinge]\n", "  sft_weight: 1"));
  EXPECT_NE(refusal(base + "[hinge, ipo]\n").find("4: loss_type: "), std::string::npos);
  EXPECT_NE(refusal(base + "sigmoid\ncpo_alpha: 1.0\n").find("5: cpo_alpha: "), std::string::npos);
  EXPECT_EQ(refusal(base + "simpo\ncpo_alpha: 1.0\n"), "");
  const std::string cpo = "model_name_or_path: m\ndataset_name: a.jsonl\nbeta: 0.2\n";
  EXPECT_NE(refusal(cpo + "cpo_alpha: 1.0\n").find("4: cpo_alpha: "), std::string::npos);
  EXPECT_NE(refusal(cpo + "output_dir: runs/llama-cpo\n").find("4: output_dir: "),
            std::string::npos);
}

TEST(ImportEffectsTest, AMethodInANameIsAWordAndIsSaid) {
  const std::string base = "model_name_or_path: m\ndataset_name: a.jsonl\nbeta: 0.2\noutput_dir: ";
  EXPECT_TRUE(
      accounts(base + "runs/llama-kto\n", "  output_dir: a config of 'trl kto', as its name says"));
  EXPECT_TRUE(accounts(base + "runs/llama-kto\n", "  type: kto"));
  EXPECT_TRUE(accounts(base + "tiktoken-dpo\n", "  type: dpo"));
  EXPECT_TRUE(accounts(base + "llama-dpo-rewardbench\n", "  type: dpo"));
}

TEST(ImportEffectsTest, TheOrderOfSamplesOfTrlIsKept) {
  const std::string base = "model_name_or_path: m\ndataset_name: a.jsonl\n";
  const std::string kto = base + "desirable_weight: 1.5\n", dpo = base + "beta: 0.2\n";
  EXPECT_TRUE(accounts(kto, "    shuffle: false"));
  EXPECT_FALSE(accounts(dpo, "    shuffle: false"));
  EXPECT_TRUE(accounts(dpo + "train_sampling_strategy: sequential\n", "    shuffle: false"));
  EXPECT_TRUE(
      accounts(dpo + "train_sampling_strategy: group_by_length\n", "    group_by_length: true"));
  EXPECT_TRUE(accounts(dpo + "max_length: null\n",
                       "max_length: samples are cut at 1024 tokens: write a greater length"));
  EXPECT_TRUE(accounts(base + "dataset_text_field: text\n", "    append_eos: true"));
}

TEST(ImportEffectsTest, WhatTrainerKeepsFromGaLoreIsKeptFromIt) {
  const std::string all = reported("c.yaml",
                                   "num_train_epochs: 1\nlearning_rate: 1e-4\noptim: galore_adamw\n"
                                   "weight_decay: 0.1\nadam_beta2: 0.95\n");
  for (const char* key : {"weight_decay", "adam_beta2"}) {
    EXPECT_NE(all.find(std::string(key) + ": Trainer does not pass it to GaLore\n"),
              std::string::npos)
        << all;
  }
  EXPECT_EQ(all.find("  betas: "), std::string::npos) << all;
  EXPECT_NE(all.find("  eps: 1e-06\n"), std::string::npos) << all;
}

TEST(ImportEffectsTest, SchedulesTakeAllOptionsOfTransformers) {
  const std::string base = "num_train_epochs: 1\nlearning_rate: 1e-4\nlr_scheduler_type: ";
  const std::string wsd =
      reported("c.yaml", base +
                             "warmup_stable_decay\nwarmup_steps: 9\n"
                             "lr_scheduler_kwargs: {num_decay_steps: 5, min_lr_ratio: 0.1}\n");
  EXPECT_NE(wsd.find("  to: 0.1\n"), std::string::npos) << wsd;
  EXPECT_NE(wsd.find("  warmup_from: 0.1\n"), std::string::npos) << wsd;
  const std::string plateau =
      reported("c.yaml", base +
                             "reduce_lr_on_plateau\nmetric_for_best_model: eval_accuracy\n"
                             "lr_scheduler_kwargs: {mode: max, threshold_mode: abs, eps: 1e-6}\n");
  for (const char* line :
       {"  metric: eval/accuracy\n", "  mode: max\n", "  threshold_mode: abs\n", "  eps: 1e-6\n"}) {
    EXPECT_NE(plateau.find(line), std::string::npos) << plateau;
  }
  EXPECT_TRUE(accounts(base + "inverse_sqrt\nlr_scheduler_kwargs: {timescale: 400}\n",
                       "  timescale: 400 steps"));
}

TEST(ImportEffectsTest, WhatTrainerDoesOtherwiseWithCheckpointsAndBatchesIsSaid) {
  const std::string base = "num_train_epochs: 1\nlearning_rate: 1e-4\n";
  const std::string kept =
      "  save_total_limit: Trainer keeps every checkpoint without it, and the recipe the last two: "
      "set "
      "'checkpoint.keep.last' for more";
  EXPECT_TRUE(accounts(base, kept));
  EXPECT_FALSE(accounts(base + "save_total_limit: 3\n", kept));
  EXPECT_TRUE(
      accounts(base + "load_best_model_at_end: true\n",
               "  load_best_model_at_end: the best checkpoint is kept, and the run ends with its "
               "last weights: export the best one by its folder"));
  EXPECT_TRUE(accounts(base + "dataloader_drop_last: true\n", "    drop_last: true"));
  EXPECT_TRUE(accounts(
      base + "dataloader_drop_last: true\ngradient_accumulation_steps: 4\n",
      "dataloader_drop_last: 'data.loader.drop_last' drops the batch of a step, Trainer one "
      "of those that gradient_accumulation_steps adds up"));
  EXPECT_TRUE(accounts(base + "deepspeed: {scheduler: {type: WarmupCosineLR}}\n",
                       "  DeepSpeed warms up for 1000 steps without 'warmup_num_steps'; here "
                       "'scheduler.warmup' decides"));
}

}  // namespace
}  // namespace accel::import_effects_test
