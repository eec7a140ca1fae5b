#include "compat/trainers/import_recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "compat/trainers/trainer.h"
#include "core/base/error.h"
#include "tests/unit/compat/trainers/import_texts.h"

namespace accel::import_recipe_test {
namespace {

FieldInfo section(const std::string& name, std::vector<FieldInfo> fields = {}) {
  FieldInfo info;
  info.name = name;
  info.fields = std::move(fields);
  return info;
}

std::string golden(const std::string& name) {
  const std::string folder = std::getenv("ACCEL_SOURCE_DIR");
  std::ifstream file(folder + "/tests/unit/compat/trainers/golden/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// golden/NAME.yaml is what one peer may say, NAME.expect what becomes of it.
class ImportGoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(ImportGoldenTest, BecomesARecipeAndAnAccount) {
  const std::string name = GetParam(), type = name == "torchtitan" ? ".toml" : ".yaml";
  const std::string config = golden(name + type);
  ASSERT_NE(config, "");
  EXPECT_EQ(reported("c" + type, config), golden(name + ".expect"));
}

INSTANTIATE_TEST_SUITE_P(ImportRecipe, ImportGoldenTest,
                         testing::Values("trainer", "axolotl", "llama_factory", "torchtune", "trl",
                                         "lightning", "torchtitan"));

TEST(ImportRecipeTest, ShardingOfTrainersIsRead) {
  const std::string trainer = "num_train_epochs: 1\nlearning_rate: 1e-4\n";
  expect_lines(trainer +
                   "fsdp: shard_grad_op offload auto_wrap\n"
                   "fsdp_config: {activation_checkpointing: true, xla: false}\nbf16: true\n",
               {"    stage: 2", "  activation_checkpointing: blocks",
                "  c.yaml:3: fsdp -> accelerator.fsdp.stage, accelerator.fsdp.offload",
                "  c.yaml:4: fsdp_config.activation_checkpointing -> "
                "train.activation_checkpointing",
                "  Accelerate sums gradients of FSDP in bf16; here they are summed in fp32, unless "
                "'accelerator.fsdp.reduce_dtype' is bf16"});
  expect_lines(
      trainer +
          "deepspeed:\n  zero_optimization: {stage: 2, overlap_comm: false}\n"
          "  optimizer: {type: AdamW, params: {lr: 3e-5}}\n",
      {"    stage: 2", "  c.yaml:4: deepspeed.zero_optimization.stage -> accelerator.fsdp.stage",
       "  c.yaml:4: deepspeed.zero_optimization.overlap_comm",
       "  c.yaml:5: deepspeed.optimizer.params.lr: 'optimizer.lr' of the recipe is from "
       "another key"});
  expect_lines(trainer + "parallelism_config: {dp_shard_size: 2, tp_size: 2}\n",
               {"    dp_shard: 2", "    tp: 2",
                "  c.yaml:3: parallelism_config.tp_size -> accelerator.parallelism.tp"});
  const std::string lightning = "trainer: {max_epochs: 1, strategy: ";
  const std::string model = "}\nmodel: {class_path: a.B}\n";
  expect_lines(lightning + "deepspeed_stage_1_offload" + model,
               {"    stage: 1", "    offload: cpu"});
  expect_lines(
      lightning + "{class_path: l.DeepSpeedStrategy, init_args: {stage: 3, sub_group_size: 1}}" +
          model,
      {"    stage: 3",
       "  c.yaml:1: trainer.strategy.init_args.sub_group_size: write it in 'accelerator'"});
  expect_lines(lightning + "bagua" + model,
               {"  c.yaml:1: trainer.strategy: the strategy 'bagua' is not available"});
  expect_lines(lightning + "{class_path: lightning.pytorch.strategies.FSDPStrategy}" + model,
               {"    stage: 3", "  c.yaml:1: trainer.strategy -> accelerator.fsdp.stage"});
}

TEST(ImportRecipeTest, EveryKeyIsAccountedFor) {
  for (const char* text :
       {"base_model: x\na: 1\nb: {c: 2}\ndatasets: []\n",
        "model_name_or_path: x\nstage: dpo\ntemplate: llama3\ndataset: alpaca\na: [1]\n",
        "model: {_component_: a.b}\nprofiler: {enabled: true}\na: ~\noptimizer: {x: 1}\n",
        "num_train_epochs: {a: 1}\nlearning_rate: [1, 2]\noptim: 7\nreport_to: {a: b}\n"}) {
    const Node tree = parse_recipe("c.yaml", text);
    const Imported result = import_recipe(tree, "c.yaml", "");
    for (const Node::Entry& entry : *tree.map()) {
      const auto about = [&](const std::string& key) {
        return key == entry.key || key.starts_with(entry.key + '.');
      };
      const auto listed = [&](const auto& keys) {
        return std::any_of(keys.begin(), keys.end(),
                           [&](const auto& key) { return about(key.key); });
      };
      EXPECT_TRUE(listed(result.taken) || listed(result.idle) || listed(result.left))
          << entry.key << " of " << text;
    }
  }
}

TEST(ImportRecipeTest, KeysInTablesAreThereOnce) {
  std::vector<std::string> names;
  for (const TrainerKey& key : trainer_keys()) names.emplace_back(key.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(ImportRecipeTest, AFileOfNobodyIsRefused) {
  for (const char* text : {"model: mlp\n", "[1, 2]\n"}) {
    try {
      imported(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "'c.yaml' is not a config of a known trainer");
      EXPECT_EQ(error.hint(),
                "name its format with '--from': torchtune, torchtitan, lightning, axolotl, "
                "llama-factory, trl, trainer or accelerate");
    }
  }
  EXPECT_EQ(imported("model: mlp\n", "trainer").left.at(0).key, "model");
}

TEST(ImportRecipeTest, PreferenceMethodsBecomeTasks) {
  const std::string trl = "model_name_or_path: ./x\ndataset_name: ./p.jsonl\nmax_length: 64\n";
  expect_lines(trl + "beta: 0.2\n", {"  type: dpo", "  beta: 0.2", "    weights: '${vars.model}'",
                                     "    type: preference", "    max_length: 64",
                                     "  beta: a config of 'trl dpo', as it names no other method"});
  expect_lines(trl + "loss_type: robust\nlabel_smoothing: 0.1\ntruncation_mode: keep_end\n",
               {"  loss_type: robust", "  label_smoothing: 0.1", "    truncation_mode: keep_end"});
  expect_lines(trl + "loss_type: simpo\n",
               {"  type: simpo", "  beta: 0.1", "  gamma: 0.5", "  sft_weight: 1"});
  expect_lines(trl + "beta: 0.1\noutput_dir: model-orpo\n", {"  type: orpo"});
  expect_lines(
      "base_model: ./x\nrl: ipo\nrl_beta: 0.3\ndatasets:\n"
      "  - {path: ./p.jsonl, type: chat_template.default, field_messages: talk}\n",
      {"  loss_type: ipo", "  beta: 0.3", "    prompt: 'talk'"});
  expect_lines(
      "model_name_or_path: ./x\nstage: dpo\nfinetuning_type: full\npref_loss: orpo\n"
      "pref_beta: 0.4\ndataset: p.jsonl\n",
      {"  type: orpo", "  beta: 0.4", "    type: preference",
       "  pref_loss: the cross-entropy of orpo covers the prompt too, as in TRL"});
}

TEST(ImportRecipeTest, LabelledAnswersAndRewardsBecomeTasks) {
  const std::string trl = "model_name_or_path: ./x\ndataset_name: ./p.jsonl\n";
  expect_lines(trl + "beta: 0.2\noutput_dir: kto-1\n",
               {"  type: kto", "  beta: 0.2", "    type: unpaired", "    weights: '${vars.model}'",
                "  lr: 1e-06"});
  expect_lines(trl + "beta: 0.2\noutput_dir: kto-1\nprecompute_ref_log_probs: true\n",
               {"  type: kto", "  precompute_ref_log_probs: true"});
  expect_lines(trl + "loss_type: ipo\nprecompute_ref_log_probs: true\n",
               {"  type: dpo", "  precompute_ref_log_probs: true"});
  expect_lines(trl + "loss_type: apo_zero_unpaired\n", {"  loss_type: apo_zero_unpaired"});
  expect_lines("model_name_or_path: ./x\nloss_type: kto\ndataset_mixture: [a, b]\n",
               {"  c.yaml:3: dataset_mixture: write each dataset in the list 'data.train', as type "
                "unpaired"});
  expect_lines(trl + "desirable_weight: 1.5\n", {"  type: kto", "  desirable_weight: 1.5"});
  expect_lines(trl + "center_rewards_coefficient: 0.01\nuse_peft: true\nlora_target_modules: [q]\n",
               {"  type: reward", "  num_classes: 1", "  center_rewards_coefficient: 0.01",
                "    type: preference", "    modules_to_save: ['score.*']", "  lr: 1e-04"});
  expect_lines(
      "base_model: ./x\nrl: kto\nrl_beta: 0.5\nkto_undesirable_weight: 0.2\ndatasets:\n"
      "  - {path: ./p.jsonl, type: llama3.ultra}\n",
      {"  type: kto", "  beta: 0.5", "  undesirable_weight: 0.2", "    type: unpaired",
       "    texts_as_messages: true",
       "  datasets: the template of 'llama3.ultra' is the tokenizer's chat template"});
  expect_lines("base_model: ./x\nrl: kto\ndatasets:\n  - {path: ./p.jsonl, type: chatml.argilla}\n",
               {"  c.yaml:3: datasets: './p.jsonl' is of type 'chatml.argilla': write its answers "
                "in 'data.train' as type unpaired"});
  const std::string factory = "model_name_or_path: ./x\nfinetuning_type: full\ndataset: p.jsonl\n";
  expect_lines(factory + "stage: kto\npref_beta: 0.3\nkto_chosen_weight: 2\n",
               {"  type: kto", "  beta: 0.3", "  desirable_weight: 2", "    label: 'kto_tag'"});
  expect_lines(factory + "stage: rm\n",
               {"  type: reward", "  num_classes: 1", "    type: preference",
                "  stage: the value head of LLaMA-Factory has a bias and "
                "dropout; the head of the recipe is a linear layer "
                "'score' without, as transformers'"});
}

TEST(ImportRecipeTest, OptimizersOfPackagesAreKept) {
  const std::string args = "num_train_epochs: 1\nlearning_rate: 0.1\nadam_beta2: 0.95\n";
  expect_lines(args + "optim: adamw_bnb_8bit\n",
               {"  type: adamw_8bit", "  betas: [0.9, 0.95]", "  weight_decay: 0"});
  expect_lines(args + "optim: paged_adamw_8bit\n",
               {"  type: adamw_8bit",
                "  optim: the state of 'paged_adamw_8bit' stays on the device, where CUDA would "
                "page it to the host; 'accelerator.fsdp.offload' moves it"});
  expect_lines(args + "optim: lion_8bit\n",
               {"  type: lion",
                "  optim: 'lion_8bit' stores its state in another precision, 'lion' in 32 bits"});
  expect_lines(args + "optim: schedule_free_adamw\nwarmup_steps: 20\n",
               {"  type: schedule_free_adamw", "  warmup_steps: 20"});
  expect_lines(args +
                   "optim: galore_adamw\noptim_args: 'rank=64, scale=0.5'\n"
                   "optim_target_modules: [attn]\n",
               {"  type: galore_adamw", "  rank: 64", "  scale: 0.5",
                "  c.yaml:6: optim_target_modules: all matrices but embeddings and the head are "
                "projected: 'optimizer.exclude' names others"});
  expect_lines(
      "model_name_or_path: ./x\nstage: sft\nfinetuning_type: full\nuse_galore: true\n"
      "galore_rank: 32\n",
      {"  type: galore_adamw", "  rank: 32", "  scale: 2.0", "  update_proj_gap: 200"});
  expect_lines(args + "lr_scheduler_type: cosine_with_restarts\n",
               {"  type: cosine", "  restarts: 1"});
  expect_lines(args +
                   "lr_scheduler_type: cosine_with_restarts\n"
                   "lr_scheduler_kwargs: {num_cycles: 3}\n",
               {"  restarts: 3"});
  expect_lines(
      "base_model: ./x\nneftune_noise_alpha: 5\ndatasets:\n"
      "  - {path: ./p.jsonl, type: chat_template}\n",
      {"  type: causal_lm", "  neftune_noise_alpha: 5"});
}

TEST(ImportRecipeTest, OtherPairsOfAxolotlAreLeftOut) {
  const std::string rl = "base_model: ./x\nrl: dpo\ndatasets:\n  - {path: ./p.jsonl, type: ";
  expect_lines(rl + "chat_template.default, field_chosen: good}\n",
               {"  c.yaml:3: datasets: its 'chosen' is 'good': write it in 'data.train' as type "
                "preference"});
  expect_lines(rl + "chatml.intel}\n",
               {"  c.yaml:3: datasets: './p.jsonl' is of type 'chatml.intel': write its pairs in "
                "'data.train' as type preference"});
}

TEST(ImportRecipeTest, AMethodThatCannotBeKeptIsRefused) {
  const std::string axolotl = "base_model: ./x\n",
                    factory = "model_name_or_path: ./x\nstage: sft\n";
  EXPECT_EQ(refusal(axolotl + "adapter: ia3\n"), "2: adapter: the only adapter is LoRA");
  EXPECT_EQ(refusal(axolotl + "rl: grpo\n"),
            "2: rl: this kind of reinforcement learning is not available");
  EXPECT_EQ(refusal(axolotl + "plugins: [axolotl.integrations.kd.KDPlugin]\n"),
            "2: plugins: the plugin 'axolotl.integrations.kd.KDPlugin' changes the training");
  EXPECT_EQ(refusal(axolotl + "optimizer: schedule_free_radam\n"),
            "2: optimizer: the optimizer 'schedule_free_radam' is not available | 'accel-run list' "
            "shows the optimizers");
  EXPECT_EQ(refusal(axolotl + "lr_scheduler: rex\n"),
            "2: lr_scheduler: the schedule 'rex' is not available | 'accel-run list' shows the "
            "schedulers");
  EXPECT_EQ(refusal(axolotl + "adapter: lora\n"),
            "1: lora_target_modules: the layers that PEFT adapts by default depend on the model's "
            "type, which is unknown here | list the layers' names, or import where the model's "
            "folder is");
  EXPECT_EQ(
      refusal(axolotl + "adapter: lora\nlora_target_modules: 'model.(q|v)_proj'\n"),
      "3: lora_target_modules: it is a regular expression of layers | list the layers' names, "
      "which become 'model.lora.target_modules'");
  EXPECT_EQ(refusal(factory + "label_smoothing_factor: 0.1\n"),
            "3: label_smoothing_factor: the loss of language models has no label smoothing");
  EXPECT_EQ(refusal(factory + "use_adam_mini: true\n"),
            "3: use_adam_mini: the optimizer 'adam_mini' is not available");
  EXPECT_EQ(refusal("num_train_epochs: 1\noptim: adopt\n"),
            "2: optim: the optimizer 'adopt' is not available | 'accel-run list' shows the "
            "optimizers");
  EXPECT_EQ(refusal("model_name_or_path: ./x\ndataset_name: y\nbeta: 0.1\nsync_ref_model: true\n"),
            "4: sync_ref_model: this kind of preference or reward training is not available");
  EXPECT_EQ(refusal("model: {_component_: torchtune.models.flux.flux_1}\n"
                    "optimizer: {_component_: torch.optim.AdamW}\n",
                    ProgramIndex({}, {}, [](const std::string&) { return false; })),
            "1: model: 'flux_1' is a model of type 'flux', which is not available | 'accel-run "
            "explain model auto' shows the models of Hugging Face folders");
  EXPECT_EQ(refusal("model: {_component_: my.own.model}\n"
                    "optimizer: {_component_: torch.optim.AdamW}\n"),
            "1: model: the model 'model' is not available | 'accel-run explain model auto' shows "
            "the models of Hugging Face folders");
  EXPECT_EQ(refusal("model: {_component_: torchtune.models.llama3.llama3_8b}\n"
                    "optimizer: {_component_: torch.optim.AdamW}\nloss: {_component_: a.MyLoss}\n"),
            "3: loss: the loss 'MyLoss' is not available");
  EXPECT_EQ(refusal("model: {name: flux, flavor: dev}\ntraining: {steps: 1}\n"),
            "1: model.name: the model 'flux' is not available | 'accel-run list' shows the models");
  EXPECT_EQ(refusal("model: {name: llama3, flavor: 9B}\ntraining: {steps: 1}\n"),
            "1: model.flavor: the sizes of 'llama3' 9B are unknown here | write them as options of "
            "the model 'llama'");
  EXPECT_EQ(refusal("trainer: {max_epochs: 9}\nlr_scheduler: {class_path: a.CosineAnnealingLR, "
                    "init_args: {T_max: 3}}\n"),
            "2: lr_scheduler.class_path: its period is not the length of the run | 'accel-run "
            "list' shows the schedulers");
}

TEST(ImportRecipeTest, ReasonsOfKeysThatAreNotInTheRecipe) {
  const auto reasons = [](const std::string& text) {
    std::string all;
    for (const ImportNote& note : imported(text).left) all += note.key + ": " + note.reason + '\n';
    return all;
  };
  EXPECT_EQ(reasons("base_model: ./x\nsequence_len: 8\nval_set_size: 0.1\n"
                    "datasets: [{path: x.jsonl, type: alpaca}]\n"),
            "datasets: 'x.jsonl' is of type 'alpaca': write its conversations in 'data.train' as "
            "type chat\nsequence_len: write it in 'data.train'\n"
            "val_set_size: write a dataset of held-out samples in 'data.eval'\n");
  EXPECT_EQ(reasons("base_model: ./x\ndatasets: [{path: x.csv, type: completion}]\n"),
            "datasets: 'x.csv' is no file of JSON Lines\n");
  EXPECT_EQ(reasons("base_model: ./x\ndatasets: [{path: x.parquet, type: alpaca}]\n"),
            "datasets: 'x.parquet' is of type 'alpaca': write its conversations in 'data.train' as "
            "type chat, converted by: python3 -c \"import pandas; pandas.read_parquet('x.parquet')"
            ".to_json('x.jsonl', orient='records', lines=True)\"\n");
  EXPECT_EQ(reasons("trainer: {max_epochs: 1, precision: 64-true, limit_val_batches: 0.5}\n"),
            "trainer.limit_val_batches: write 'limit' of the dataset for it\n"
            "trainer.precision: the precision '64-true' is not available\n");
  EXPECT_EQ(reasons("model_name_or_path: ./x\nstage: sft\ndataset: a.jsonl\ntemplate: llama3\n"),
            "template: the chat template is that of the tokenizer, which can differ from "
            "'llama3'\n");
  EXPECT_EQ(reasons("model: {_component_: torchtune.models.llama3.llama3_8b}\n"
                    "optimizer: {_component_: torch.optim.AdamW}\n"
                    "dataset: {_component_: torchtune.datasets.alpaca_dataset}\n"),
            "dataset: alpaca_dataset: write its conversations in 'data.train' as type chat\n");
  EXPECT_EQ(reasons("num_train_epochs: 1\nlr_scheduler_kwargs: 5\nseed: [1]\n"),
            "lr_scheduler_kwargs: it is no section of options\n"
            "seed: its value [1] has no counterpart\n");
}

TEST(ImportRecipeTest, OffloadedActivations) {
  for (const char* words : {"gradient_checkpointing: offload",
                            "gradient_checkpointing: true\nactivation_offloading: legacy"}) {
    const std::string yaml =
        to_yaml(imported("base_model: ./x\n" + std::string(words) + "\n").recipe);
    EXPECT_NE(yaml.find("activation_checkpointing: blocks\n"), std::string::npos) << words;
    EXPECT_NE(yaml.find("activation_cpu_offload: true\n"), std::string::npos) << words;
  }
}

TEST(ImportRecipeTest, ValuesOfOtherWordsAreKeptOrReported) {
  const auto remarks = [](const std::string& text) {
    std::string all;
    for (const std::string& remark : imported(text).remarks) all += remark + '\n';
    return all;
  };
  EXPECT_NE(remarks("base_model: ./x\nactivation_offloading: true\n")
                .find("activation_offloading: without activation checkpointing no activation is "
                      "offloaded\n"),
            std::string::npos);
  EXPECT_NE(remarks("base_model: ./x\ngradient_checkpointing: true\nactivation_offloading: disk\n")
                .find("activation_offloading: to memory of the host, not to the disk\n"),
            std::string::npos);
  EXPECT_NE(remarks("model_name_or_path: ./x\ndataset_name: a.jsonl\ndataset_text_field: text\n"
                    "packing: true\npacking_strategy: wrapped\n")
                .find("packing: texts are concatenated, and attention crosses their borders\n"),
            std::string::npos);
  std::string left;
  for (const ImportNote& note :
       imported("model_name_or_path: ./x\ndataset_name: a.jsonl\ndataset_text_field: text\n"
                "assistant_only_loss: true\n")
           .left) {
    left += note.key + ": " + note.reason + '\n';
  }
  EXPECT_EQ(left, "assistant_only_loss: the samples are texts, which have no roles\n");
  EXPECT_EQ(refusal("base_model: ./x\noptimizer: lion_pytorch\nneftune_noise_alpha: 0\n"), "");
  const Imported lightning = imported(
      "trainer: {max_epochs: 1, deterministic: warn, logger: {class_path: a.WandbLogger, "
      "init_args: {project: cats}}}\n");
  const std::string recipe = to_yaml(lightning.recipe);
  EXPECT_NE(recipe.find("deterministic: true"), recipe.npos) << recipe;
  EXPECT_NE(recipe.find("project: cats"), recipe.npos) << recipe;
}

TEST(ImportRecipeTest, ParquetFilesOfTextsAreReadAndOthersAreConverted) {
  const auto file_of = [](const std::string& dataset) {
    Imported all = imported("base_model: ./x\ndatasets: [{" + dataset + "}]\n");
    const Node& train = all.recipe.find("data")->node.find("train")->node;
    std::string out =
        train.find("type")->node.scalar()->text + ' ' + train.find("path")->node.scalar()->text;
    for (const std::string& missing : all.missing) {
      if (missing.find("python3") != missing.npos) out += '\n' + missing;
    }
    return out;
  };
  EXPECT_EQ(file_of("path: a.parquet, type: completion"), "parquet a.parquet");
  EXPECT_EQ(file_of("path: b/a.parquet, type: chat_template"),
            "chat b/a.jsonl\nb/a.jsonl: python3 -c \"import pandas; pandas.read_parquet("
            "'b/a.parquet').to_json('b/a.jsonl', orient='records', lines=True)\"");
}

TEST(ImportRecipeTest, AModelOfAMissingTypeIsRefusedByItsName) {
  const ProgramIndex llamas({}, {}, [](const std::string& type) { return type == "llama"; });
  EXPECT_EQ(refusal("base_model: google/gemma-2-2b\n", llamas),
            "1: base_model: the name 'google/gemma-2-2b' is that of a model of type 'gemma2', "
            "which is not available | if it has another type, import where its folder is: its "
            "config.json shows the type");
  for (const char* name : {"tiiuae/Falcon3-1B-Base", "codellama/CodeLlama-7b-hf", "acme/unknown"}) {
    EXPECT_EQ(refusal(std::string("base_model: ") + name + "\n", llamas), "") << name;
  }
  EXPECT_EQ(refusal("base_model: google/gemma-2-2b\n"), "") << "an index that knows no models";
}

TEST(ImportRecipeTest, ASentenceOnAMissingFeatureFollowsTheProgram) {
  EXPECT_EQ(lack_of("compilation", {}), "models are not compiled");
  const std::vector<FieldInfo> sections = {
      section("train", {section("compile_model"), section("often")})};
  const ProgramIndex program(sections, {}, {});
  EXPECT_EQ(lack_of("compilation", program),
            "accel-run has 'train.compile_model', which the import does not write");
  EXPECT_EQ(lack_of("adapter", program), "the only adapter is LoRA") << "'often' is no 'oft'";
  EXPECT_TRUE(program.has_key("train.often"));
  EXPECT_FALSE(program.lacks_model("llama"));
  EXPECT_THROW(lack_of("no feature", {}), std::logic_error);
}

TEST(ImportRecipeTest, LoraOfEachFormatBecomesASection) {
  const auto lora = [](const std::string& text) {
    const std::string yaml = to_yaml(imported(text).recipe);
    const size_t begin = yaml.find("  lora:\n");
    return yaml.substr(begin, yaml.find("\ntask") - begin);
  };
  EXPECT_EQ(lora("base_model: ./x\nadapter: lora\nlora_r: 16\nlora_alpha: 32\nlora_dropout: 0.05\n"
                 "lora_target_modules: [q_proj, v_proj]\nlora_modules_to_save: [lm_head]\n"
                 "datasets: [{path: a.jsonl, type: completion}]\n"),
            "  lora:\n    rank: 16\n    alpha: 32\n    dropout: 0.05\n"
            "    target_modules: ['*.q_proj', '*.v_proj']\n    modules_to_save: ['*lm_head.*']");
  EXPECT_EQ(lora("model_name_or_path: ./x\nstage: pt\nlora_target: 'q_proj, v_proj, lm_head'\n"
                 "dataset: a.txt\nuse_rslora: true\n"),
            "  lora:\n    rank: 8\n    alpha: 16\n    dropout: 0\n    rslora: true\n"
            "    target_modules: ['*.q_proj', '*.v_proj', 'lm_head']");
  EXPECT_EQ(lora("model: {_component_: a.lora_llama3, lora_attn_modules: [q_proj, output_proj], "
                 "apply_lora_to_mlp: True}\ncheckpointer: {_component_: b, checkpoint_dir: ./x}\n"
                 "dataset: {_component_: c.text_completion_dataset, data_files: a.txt}\n"),
            "  lora:\n    rank: 8\n    alpha: 16\n    target_modules: ['*.q_proj', '*.o_proj', "
            "'*.gate_proj', '*.up_proj', '*.down_proj']");
}

TEST(ImportRecipeTest, AFileOfConversationsBecomesAChatDataset) {
  const Imported result = imported(
      "base_model: ./x\nsequence_len: 512\nsample_packing: true\ntrain_on_inputs: true\n"
      "datasets: [{path: a.jsonl, type: chat_template, field_messages: talk}]\n"
      "val_set_size: 0.1\ngradient_checkpointing: true\n");
  const std::string yaml = to_yaml(result.recipe);
  EXPECT_NE(yaml.find("  train:\n    type: chat\n    path: 'a.jsonl'\n    tokenizer: "
                      "'${vars.model}'\n    messages: 'talk'\n    max_length: 512\n    pack: true\n"
                      "    answers_only: false\n"),
            std::string::npos)
      << yaml;
  EXPECT_NE(yaml.find("activation_checkpointing: blocks\n"), std::string::npos) << yaml;
  EXPECT_EQ(result.left.at(0).reason, "write a dataset of held-out samples in 'data.eval'");
}

TEST(ImportRecipeTest, AxolotlsKeysAndRolesOfMessagesAreKept) {
  const auto section = [](const std::string& options) {
    const Imported result = imported(
        "base_model: ./x\nsequence_len: 512\ndatasets: [{path: a.jsonl, "
        "type: chat_template, " +
        options + "}]\n");
    if (!result.left.empty()) return result.left.front().reason;
    const std::string yaml = to_yaml(result.recipe);
    const size_t begin = yaml.find("    tokenizer"), end = yaml.find("    max_length");
    return yaml.substr(begin, end - begin);
  };
  const std::string start = "    tokenizer: '${vars.model}'\n";
  EXPECT_EQ(section("message_property_mappings: {role: from, content: value}"),
            start +
                "    role_key: 'from'\n    content_key: 'value'\n"
                "    roles:\n      gpt: 'assistant'\n      human: 'user'\n");
  EXPECT_EQ(
      section("message_property_mappings: {role: role, content: content}, train_on_eos: turn, "
              "roles_to_train: [assistant]"),
      start + "    roles:\n      gpt: 'assistant'\n      human: 'user'\n");
  EXPECT_EQ(section("message_field_role: who, message_field_content: said, "
                    "roles: {user: [asker, user], assistant: bot}"),
            start +
                "    role_key: 'who'\n    content_key: 'said'\n"
                "    roles:\n      asker: 'user'\n      bot: 'assistant'\n");
  EXPECT_EQ(section("message_property_mappings: {role: from, tool_calls: calls}"),
            "the messages have a 'tool_calls', and their role and content are read only");
  EXPECT_EQ(section("roles_to_train: [assistant, user]"),
            "'roles_to_train' has another role than the assistant's, the only one that is trained "
            "on");
  EXPECT_EQ(section("train_on_eos: all"), "it has no counterpart");
}

TEST(ImportRecipeTest, WordsOfAxolotlForThePrecisionAreRead) {
  const std::string base = "base_model: m\nmicro_batch_size: 2\nadapter: lora\nlora_r: 4\n";
  expect_lines(base + "bf16: false\nfloat16: true\n",
               {"  mixed_precision: fp16", "  c.yaml:6: float16 -> accelerator.mixed_precision"});
  expect_lines(base + "bfloat16: false\nbf16: true\n",
               {"  mixed_precision: bf16", "  c.yaml:6: bf16 -> accelerator.mixed_precision"});
  expect_lines(base + "bfloat16: true\nbf16: false\n",
               {"  mixed_precision: bf16", "  c.yaml:5: bfloat16 -> accelerator.mixed_precision"});
}

TEST(ImportRecipeTest, FormatsWithOtherLayoutsAreRecognized) {
  EXPECT_EQ(
      refusal("model: ./x\ntemplate: qwen3\ndist_config: {name: fsdp2}\nmax_steps: 10\n"),
      "3: dist_config: it is a key of LLaMA-Factory's version 1, whose configs are not read | "
      "import a config of version 0, with 'model_name_or_path' and 'stage'");
  const auto scheduled = [](const std::string& scheduler) {
    return "trainer: {max_epochs: 9}\noptimizer: {class_path: torch.optim.SGD, init_args: {lr: "
           "1}}\n"
           "lr_scheduler: {class_path: torch.optim.lr_scheduler." +
           scheduler + "}\n";
  };
  EXPECT_EQ(
      refusal(scheduled("OneCycleLR, init_args: {max_lr: 1}")),
      "3: lr_scheduler.class_path: the schedule 'OneCycleLR' is not converted | leave it out, "
      "and write the scheduler 'one_cycle' in the recipe, whose options differ");
  const std::string steps = to_yaml(
      imported(scheduled("MultiStepLR, init_args: {milestones: [3, 6], gamma: 0.5}")).recipe);
  EXPECT_NE(steps.find("  type: multistep\n"), std::string::npos) << steps;
  EXPECT_NE(steps.find("3 epochs"), std::string::npos) << steps;
  const Imported nested = imported("fit:\n  seed_everything: 3\n  trainer: {max_epochs: 2}\n");
  EXPECT_EQ(nested.peer, "lightning");
  EXPECT_NE(to_yaml(nested.recipe).find("until: 2 epochs"), std::string::npos);
}

TEST(ImportRecipeTest, HeldOutSamplesBecomeASplitWhereTheProgramHasIt) {
  const std::vector<FieldInfo> sections = {
      section("data", {section("split", {section("eval")}), section("train", {section("head")})})};
  const ProgramIndex program(sections, {}, {});
  const std::string text =
      "model_name_or_path: ./x\nstage: sft\nfinetuning_type: full\ndataset: a.jsonl\n"
      "max_samples: 10\nval_size: 0.1\n";
  const Imported result = import_recipe(parse_recipe("c.yaml", text), "c.yaml", "", program);
  const std::string yaml = to_yaml(result.recipe);
  EXPECT_NE(yaml.find("    head: 10\n  split:\n    eval: 10%\n"), std::string::npos) << yaml;
  const std::string today = to_yaml(imported(text).recipe);
  EXPECT_NE(today.find("    limit: 10\n"), std::string::npos) << today;
}

TEST(ImportRecipeTest, DatasetsOfTheHubAreMissingFiles) {
  const Imported result = imported(
      "base_model: org/m\nlearning_rate: 1e-4\ndatasets:\n"
      "  - {path: org/talks, type: chat_template, split: 'train[:5%]'}\n"
      "  - {path: org/texts, type: completion}\n");
  EXPECT_EQ(result.missing,
            (std::vector<std::string>{
                "./org/m: accel-run download hf:org/m --to ./org/m",
                "./talks.jsonl: split 'train[:5%]' of the dataset 'org/talks' as JSON Lines with "
                "the field 'messages'",
                "hf:datasets/org/texts: accel-run download hf:datasets/org/texts"}));
}

TEST(ImportRecipeTest, UnsetKeysTakeTheTrainersDefaults) {
  const auto defaults = [](const std::string& text) {
    std::string all;
    for (const std::string& each : imported(text).defaults) all += each + '\n';
    return all;
  };
  EXPECT_EQ(defaults("base_model: ./x\nlearning_rate: 1e-4\n"),
            "optimizer.type: adamw (optimizer)\noptimizer.weight_decay: 0 (weight_decay)\n"
            "scheduler.type: cosine (lr_scheduler)\nscheduler.warmup: 3% (warmup)\n"
            "train.batch: 1 (micro_batch_size)\ntrain.micro_batch: 1 (micro_batch_size)\n"
            "train.until: 1 epoch (num_epochs)\neval.every: never (eval_strategy)\n"
            "checkpoint.every: 1 epoch (save_strategy)\n"
            "checkpoint.keep.last: 4 (save_total_limit)\n"
            "accelerator.mixed_precision: bf16 (bf16)\ntrain.max_grad_norm: 1.0 (max_grad_norm)\n");
  const Imported axolotl = imported("base_model: ./x\n");
  EXPECT_EQ(axolotl.missing.back(), "'optimizer.lr': the config has no learning_rate");
  const std::string trl = defaults("model_name_or_path: ./x\ndataset_name: org/y\n");
  EXPECT_NE(trl.find("optimizer.lr: 2e-05 (learning_rate)\n"), std::string::npos) << trl;
  const std::string lightning = defaults("trainer: {max_steps: -1}\nseed_everything: 1\n");
  EXPECT_NE(lightning.find("train.until: 1000 epochs (trainer.max_epochs)\n"), std::string::npos)
      << lightning;
}

TEST(ImportRecipeTest, KeysOnOneLineHaveColumns) {
  const std::string report =
      import_report(imported("{num_train_epochs: 3, seed: 5, fp16: false}\n"));
  EXPECT_NE(report.find("in the recipe: 2 of 3 keys (67 %)\n  c.yaml:1:2: num_train_epochs -> "
                        "train.until\n  c.yaml:1:23: seed -> seed\n"
                        "no effect here: 1 of 3 keys (33 %)\n  c.yaml:1:32: fp16\n"
                        "not in the recipe: 0 of 3 keys (0 %)\ndefaults of trainer:\n"),
            std::string::npos)
      << report;
}

TEST(ImportRecipeTest, ValuesSayWhereTheyComeFrom) {
  const std::string text = imported_text(imported("num_train_epochs: 3\nseed: 5\n"));
  const size_t end = text.find('\n');
  EXPECT_TRUE(text.starts_with("seed: 5 ")) << text;
  EXPECT_TRUE(text.substr(0, end).ends_with("  # c.yaml:2")) << text;
}

}  // namespace
}  // namespace accel::import_recipe_test
