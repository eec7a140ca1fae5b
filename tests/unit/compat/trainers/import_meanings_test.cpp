// Keys of other trainers whose value means another one here, or depends on the model.
#include <gtest/gtest.h>

#include "core/base/text.h"
#include "tests/unit/compat/trainers/import_texts.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::import_meanings_test {
namespace {

constexpr auto kTrl = "model_name_or_path: ./llama\ndataset_name: a.jsonl\n";
constexpr auto kAxolotl = "base_model: ./llama\nlearning_rate: 1e-4\n";
constexpr auto kFactory =
    "model_name_or_path: ./llama\nstage: sft\nfinetuning_type: full\ndataset: a\n";
constexpr auto kTrainer = "model_name_or_path: ./llama\nnum_train_epochs: 1\n";

std::string account(const std::string& config) {
  return reported("c.yaml", config);
}

bool accounts(const std::string& config, const std::string& line) {
  return account(config).find(line + "\n") != std::string::npos;
}

TEST(ImportMeaningsTest, BiasesAndNormsHaveNoWeightDecayAsInTrainer) {
  const std::string group = "  groups:\n    - match: ['*norm.weight']\n      weight_decay: 0\n";
  for (const char* base : {kTrl, kAxolotl, kFactory, kTrainer}) {
    const std::string config = std::string(base) + "weight_decay: 0.1\n";
    EXPECT_NE(account(config).find(group), std::string::npos) << account(config);
    EXPECT_EQ(account(config).find("Trainer excludes"), std::string::npos);
    EXPECT_EQ(account(std::string(base) + "weight_decay: 0\n").find("groups:"), std::string::npos);
  }
  const std::string adapter =
      account(std::string(kTrl) + "weight_decay: 0.1\nuse_peft: true\nlora_r: 4\n");
  EXPECT_EQ(adapter.find("groups:"), std::string::npos) << adapter;
  EXPECT_EQ(adapter.find("Trainer excludes"), std::string::npos) << adapter;
  EXPECT_TRUE(accounts("model_name_or_path: ./own\nnum_train_epochs: 1\nweight_decay: 0.1\n",
                       "  weight_decay: Trainer excludes biases and norms; write "
                       "'optimizer.groups' for that"));
}

TEST(ImportMeaningsTest, TheModelsConfigShowsItsBiases) {
  const TempFolder work;
  const auto patterns = [&](const std::string& config) {
    work.write("m/config.json", config);
    const Node recipe = imported(text("model_name_or_path: {}\nnum_train_epochs: 1\n"
                                      "weight_decay: 0.1\n",
                                      work.path("m")))
                            .recipe;
    const std::string yaml = to_yaml(recipe);
    const size_t begin = yaml.find("match: ");
    return yaml.substr(begin, yaml.find('\n', begin) - begin);
  };
  EXPECT_EQ(patterns(R"({"model_type": "gpt2"})"), "match: ['*ln_*', '*.bias']");
  EXPECT_EQ(patterns(R"({"model_type": "qwen2"})"), "match: ['*norm.weight', '*.bias']");
  EXPECT_EQ(patterns(R"({"model_type": "opt", "enable_bias": false})"), "match: ['*norm.weight']");
  EXPECT_EQ(patterns(R"({"model_type": "llama", "attention_bias": true})"),
            "match: ['*norm.weight', '*.bias']");
  EXPECT_EQ(patterns(R"({"model_type": "llama", "mlp_bias": true})"),
            "match: ['*norm.weight', '*.bias']");
}

TEST(ImportMeaningsTest, ArgumentsOfTrainerMeanTheSameInEachFormat) {
  for (const char* each : {kTrl, kAxolotl, kFactory, kTrainer}) {
    const std::string base = each;
    EXPECT_TRUE(accounts(base + "train_sampling_strategy: sequential\n", "    shuffle: false"));
    EXPECT_TRUE(
        accounts(base + "train_sampling_strategy: group_by_length\n", "    group_by_length: true"));
    EXPECT_TRUE(accounts(base + "group_by_length: true\n", "    group_by_length: true"));
    EXPECT_TRUE(accounts(base + "resume_from_checkpoint: true\n", "  resume: auto"));
    EXPECT_TRUE(accounts(base + "resume_from_checkpoint: out/checkpoint-5\n",
                         "  resume: out/checkpoint-5"));
    EXPECT_FALSE(accounts(base + "resume_from_checkpoint: False\n", "  resume: False"));
    EXPECT_TRUE(accounts(base + "ddp_timeout: 7200\n", "  timeout: 7200 s"));
    EXPECT_TRUE(accounts(
        base + "dataloader_drop_last: true\ngradient_accumulation_steps: 4\n",
        "dataloader_drop_last: 'data.loader.drop_last' drops the batch of a step, Trainer one "
        "of those that gradient_accumulation_steps adds up"));
    EXPECT_TRUE(accounts(base + "lr_scheduler_type: cosine_with_restarts\nlr_scheduler: "
                                "cosine_with_restarts\nlr_scheduler_kwargs: "
                                "'{\"num_cycles\": 3}'\n",
                         "  restarts: 3"))
        << account(base);
  }
  EXPECT_TRUE(accounts(std::string(kTrainer) + "lr_scheduler_kwargs: '{num'\n",
                       "  c.yaml:3: lr_scheduler_kwargs: it is no section of options"));
}

TEST(ImportMeaningsTest, ANullNormOfGradientsDoesNotClipButInAxolotl) {
  for (const char* base : {kTrl, kFactory, kTrainer}) {
    EXPECT_EQ(account(std::string(base) + "max_grad_norm: null\n").find("train.max_grad_norm"),
              std::string::npos);
    EXPECT_TRUE(accounts(base, "  max_grad_norm: 1.0"));
  }
  EXPECT_TRUE(accounts(std::string(kAxolotl) + "max_grad_norm:\n", "  max_grad_norm: 1.0"));
}

TEST(ImportMeaningsTest, NoAndOffAreFalse) {
  EXPECT_EQ(refusal(std::string(kAxolotl) + "load_in_8bit: no\ngptq: Off\n"), "");
  EXPECT_NE(refusal(std::string(kAxolotl) + "load_in_8bit: yes\n"), "");
}

TEST(ImportMeaningsTest, PackedTextsOfTrlAreWholeUnlessTheyWrap) {
  const std::string base = std::string(kTrl) + "dataset_text_field: text\npacking: true\n";
  const std::string crosses =
      "  packing: texts are concatenated, and attention crosses their borders";
  EXPECT_TRUE(accounts(base, "    pack: true"));
  EXPECT_TRUE(accounts(base, "    type: jsonl"));
  EXPECT_FALSE(accounts(base, crosses));
  EXPECT_TRUE(accounts(base + "packing_strategy: wrapped\n", "    type: text"));
  EXPECT_TRUE(accounts(base + "packing_strategy: wrapped\n", crosses));
  EXPECT_TRUE(accounts(base + "packing_strategy: bfd_split\n",
                       "packing_strategy: samples are packed whole and cut, as by 'bfd'"));
}

TEST(ImportMeaningsTest, SmoothingThatTrlLeavesOutIsSaid) {
  const std::string base = std::string(kTrl) + "beta: 0.1\nlabel_smoothing: 0.1\nloss_type: ";
  const std::string remark =
      "  label_smoothing: TRL smooths the loss 'sigmoid' in versions before 1 only: write "
      "'task.label_smoothing' for that";
  EXPECT_TRUE(accounts(base + "sigmoid\n", remark));
  EXPECT_FALSE(accounts(base + "robust\n", remark));
  EXPECT_FALSE(accounts(base + "hinge\n", remark));
}

TEST(ImportMeaningsTest, WordsOfAxolotlAreRead) {
  const std::string base = kAxolotl;
  EXPECT_TRUE(accounts(base + "bf16: full\n", "  mixed_precision: bf16"));
  EXPECT_TRUE(
      accounts(base + "bf16: full\n", "  bf16: weights have 32 bits, with autocast to bf16"));
  EXPECT_TRUE(accounts(base + "bf16: false\nfp16: full\n", "  mixed_precision: fp16"));
  EXPECT_TRUE(accounts(base + "micro_batch_size: 2\nbatch_size: 9\n", "  batch: 8"));
  EXPECT_TRUE(accounts(
      base + "micro_batch_size: 2\nbatch_size: 8\ngradient_accumulation_steps: 2\n", "  batch: 4"));
  EXPECT_TRUE(accounts(base + "early_stopping_patience: 3\n", "    patience: 3"));
  EXPECT_NE(refusal(base + "peft_layers_to_transform: [0]\n")
                .find("adapters of some layers or tokens are not converted"),
            std::string::npos);
}

TEST(ImportMeaningsTest, ASampleThatAxolotlLeavesOutIsCutAndSaid) {
  const std::string base =
      std::string(kAxolotl) + "datasets: [{path: a.jsonl, type: chat_template}]\n";
  const std::string remark =
      "  sequence_len: axolotl leaves out longer samples by default; here they are cut";
  EXPECT_TRUE(accounts(base, remark));
  EXPECT_TRUE(accounts(base + "excess_length_strategy: drop\n",
                       "excess_length_strategy: samples longer than 'sequence_len' are cut"));
  EXPECT_FALSE(accounts(base + "excess_length_strategy: truncate\n", remark));
}

TEST(ImportMeaningsTest, TheLossOfAxolotlsDpoIsKept) {
  const std::string base = std::string(kAxolotl) + "rl: dpo\ndpo_loss_type: ";
  EXPECT_TRUE(accounts(base + "[ipo]\n", "  loss_type: ipo"));
  EXPECT_TRUE(accounts(base + "hinge\n", "  loss_type: hinge"));
  EXPECT_EQ(refusal(base + "[ipo, sigmoid]\n"),
            "4: dpo_loss_type: this kind of preference or reward training is not available");
  EXPECT_NE(refusal(base + "[ipo]\ndpo_loss_weights: [0.5]\n"), "");
}

TEST(ImportMeaningsTest, WordsOfTorchtuneAreRead) {
  const std::string base =
      "batch_size: 2\ncheckpointer: {_component_: b, checkpoint_dir: ./x}\n"
      "optimizer: {_component_: torch.optim.AdamW, lr: 1e-4}\n"
      "model: {_component_: torchtune.models.llama3.lora_llama3_8b, lora_attn_modules: [q_proj], ";
  EXPECT_TRUE(accounts(base + "apply_lora_to_output: True}\n",
                       "    target_modules: ['*.q_proj', 'lm_head']"));
  EXPECT_EQ(refusal(base + "apply_lora_to_output: True}\n"), "");
  EXPECT_TRUE(accounts(base + "use_dora: True}\n", "    dora: true"));
  EXPECT_TRUE(accounts(base + "lora_rank: 4}\n", "    drop_last: true"));
  EXPECT_TRUE(accounts(base + "lora_rank: 4}\nepochs: 2\nmax_steps_per_epoch: 9\n",
                       "  max_steps_per_epoch: epochs are complete here; the total number of steps "
                       "is equal, unless an epoch has fewer"));
}

TEST(ImportMeaningsTest, LightningValidatesSeveralTimesInSomeEpochs) {
  const std::string base = "trainer: {max_epochs: 4, val_check_interval: 0.5";
  const std::string reason = "'eval.every' is that of 'val_check_interval'";
  EXPECT_NE(account(base + ", check_val_every_n_epoch: 2}\n").find(reason), std::string::npos);
  EXPECT_EQ(account(base + ", check_val_every_n_epoch: 1}\n").find(reason), std::string::npos);
}

TEST(ImportMeaningsTest, WordsOfLlamaFactoryAreRead) {
  const std::string base = kFactory;
  EXPECT_TRUE(accounts(base + "pure_bf16: true\n", "  mixed_precision: bf16"));
  EXPECT_TRUE(accounts(base + "pure_bf16: true\n",
                       "  pure_bf16: weights have 32 bits, with autocast to bf16"));
  EXPECT_TRUE(accounts(base + "early_stopping_steps: 3\n", "    patience: 3"));
}

TEST(ImportMeaningsTest, VariantsOfLoraAreKept) {
  const std::string layers = "lora_r: 4\nlora_target_modules: [q_proj]\n";
  const std::string dora = "    dora: true";
  const std::string axolotl = kAxolotl + layers + "adapter: lora\n";
  EXPECT_TRUE(accounts(axolotl + "peft_use_dora: true\n", dora));
  EXPECT_TRUE(accounts(axolotl + "peft_init_lora_weights: olora\n", "    init: olora"));
  EXPECT_NE(refusal(axolotl + "peft_init_lora_weights: loftq\n")
                .find("this start of LoRA's matrices is not available"),
            std::string::npos);
  EXPECT_TRUE(accounts(kTrl + layers + "use_peft: true\nuse_dora: true\n", dora));
  EXPECT_TRUE(accounts(kTrainer + layers + "train_mode: lora\nuse_dora: true\n", dora));
  const std::string factory =
      "model_name_or_path: ./llama\nstage: sft\nfinetuning_type: lora\ndataset: a\n";
  EXPECT_TRUE(accounts(factory + "use_dora: true\n", dora));
  EXPECT_TRUE(accounts(factory + "pissa_init: true\n", "    init: pissa"));
  EXPECT_TRUE(accounts(factory + "pissa_init: true\n",
                       "  pissa_init: of an exact singular value decomposition, whatever "
                       "'pissa_iter' is"));
  EXPECT_TRUE(
      accounts("model: {_component_: a.lora_llama3, lora_attn_modules: [q_proj], "
               "use_dora: true}\ncheckpointer: {_component_: b, checkpoint_dir: ./x}\n",
               dora));
}

}  // namespace
}  // namespace accel::import_meanings_test
