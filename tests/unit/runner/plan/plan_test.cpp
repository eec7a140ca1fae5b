#include "runner/plan/plan.h"

#include <gtest/gtest.h>

#include <cstdlib>

#include "runner/plan/mesh_search.h"
#include "runner/plan/plan_text.h"
#include "tests/unit/runner/plan/loaded_recipe.h"
#include "train/step/train_step.h"

namespace accel::plan_test {
namespace {

Plan plan_of_text(const std::string& text, PlanRanks ranks = 1) {
  const LoadedRecipe loaded = load_recipe(text);
  const DataSchema data = open_data(loaded.recipe, loaded.resolved, loaded.registry);
  return make_plan(loaded.recipe, loaded.resolved, loaded.registry, data, ranks);
}

constexpr auto kMlp =
    "model: {type: mlp, hidden_sizes: [8]}\n"
    "data: {train: {type: synthetic/glyphs, length: 320}, loader: {workers: 1, prefetch: 3}}\n"
    "train: {until: 2 epochs, batch: 32}\n";

TEST(PlanTest, ASmallPerceptronWrittenOut) {
  const Plan plan = plan_of_text(kMlp);
  constexpr int64_t kWeights = 784 * 8 + 8 + 8 * 10 + 10;
  EXPECT_EQ(plan.parameters, kWeights);
  EXPECT_EQ(plan.trained, kWeights);
  EXPECT_EQ(plan.memory.weights, 4 * kWeights);
  EXPECT_EQ(plan.memory.gradients, 4 * kWeights);
  EXPECT_EQ(plan.memory.optimizer, 8 * kWeights + 4 * 4);  // and each parameter's count of steps
  EXPECT_EQ(plan.memory.loader, (1 + 3) * 32 * (784 * 4 + 8));
  EXPECT_EQ(plan.memory.copy, plan.memory.weights + plan.memory.optimizer);
  // Of the first layer nothing but the weights has a gradient.
  EXPECT_EQ(plan.flops, 2.0 * 32 * (2 * 784 * 8 + 3 * 8 * 10));
  EXPECT_EQ(plan.total_steps, 20);
  EXPECT_EQ(plan.steps_per_epoch, 10);
  EXPECT_EQ(plan.dataset_bytes, 320 * (784 * 4 + 8));
  EXPECT_EQ(plan.checkpoints_kept, 3);
  EXPECT_GT(plan.checkpoint_bytes, 12 * kWeights);
  EXPECT_LT(plan.checkpoint_bytes, 12 * kWeights + 100'000);
}

TEST(PlanTest, MicroBatchesChangeTheMemoryAndNotTheWork) {
  const std::string images =
      "model: {type: resnet, embedding_size: 2}\n"
      "data: {train: {type: synthetic/glyphs, length: 320}}\n"
      "train: {until: 2 epochs, batch: 32}\n";
  const Plan whole = plan_of_text(images);
  for (const int parts : {2, 4, 8}) {
    std::string text = images;
    text.insert(text.rfind('}'), ", gradient_accumulation_steps: " + std::to_string(parts));
    const Plan plan = plan_of_text(text);
    EXPECT_EQ(plan.flops, whole.flops) << parts;
    EXPECT_EQ(plan.batches.micro_batch, 32 / parts);
    EXPECT_LT(plan.memory.activations, whole.memory.activations) << parts;
  }
}

TEST(PlanTest, ShardingThatTheTaskDoesNotSupportIsRefusedAsInARun) {
  const std::string data = std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/recipes/tiny/data/";
  const auto with_stage = [&data](const std::string& stage) {
    return plan_of_text(
        "model: {type: llama, num_layers: 1, num_heads: 2, hidden_size: 8}\n"
        "task: {type: grpo, rewards: exact_match, num_generations: 2, max_completion_length: 4}\n"
        "data:\n"
        "  train: {type: prompts, path: " +
            data + "sums.jsonl, tokenizer: " + data +
            "sums, max_length: 8}\n"
            "  loader: {even_batches: true}\n"
            "train: {until: 2 steps, batch: 4}\n"
            "accelerator: {fsdp: {stage: " +
            stage + "}}\n",
        2);
  };
  EXPECT_NO_THROW(with_stage("2"));
  EXPECT_THROW(with_stage("3"), RecipeError);
}

TEST(PlanTest, AMeshOfOtherRanksIsAnErrorOfTheRecipe) {
  const std::string text = std::string(kMlp) + "accelerator: {parallelism: {dp_replicate: 2}}\n";
  EXPECT_NO_THROW(plan_of_text(text, 2));
  EXPECT_THROW(plan_of_text(text, 4), RecipeError);
}

TEST(PlanTest, RanksShareABatchAndKeepBuckets) {
  const Plan alone = plan_of_text(kMlp), four = plan_of_text(kMlp, 4);
  EXPECT_EQ(four.batches.micro_batch, 8);
  EXPECT_EQ(four.flops, alone.flops);
  EXPECT_EQ(four.total_steps, alone.total_steps);
  EXPECT_EQ(alone.memory.others, 0);
  EXPECT_NEAR(four.memory.others, four.memory.gradients, 64);
  EXPECT_EQ(four.memory.optimizer, alone.memory.optimizer);
}

/// What a forecast does not count a second time.
/// Frozen weights with an adapter: the steps add little.
std::string frozen_gpt(const std::string& accelerator) {
  return "model: {type: gpt, num_layers: 8, hidden_size: 64, vocab_size: 99, lora: {rank: 1}}\n"
         "data: {train: {type: synthetic/addition, length: 320}}\n"
         "accelerator: {" +
         accelerator +
         "}\n"
         "train: {until: 2 epochs, batch: 4}\n";
}

TEST(PlanTest, ShardedModelsAreBuiltBlockByBlock) {
  const Plan whole = plan_of_text(frozen_gpt(""), 4),
             plan = plan_of_text(frozen_gpt("fsdp: {stage: 3}"), 4);
  EXPECT_EQ(plan.start_peak, 0);
  EXPECT_LT(plan.memory.weights, whole.memory.weights * 3 / 10);
  EXPECT_LT(plan.memory.training(), whole.memory.training() * 8 / 10);
}

TEST(PlanTest, WhatIsThereBeforeTheFirstStep) {
  const std::string text(kMlp);
  for (const Plan& plan : {plan_of_text(text), plan_of_text(text, 4),
                           plan_of_text(text + "callbacks: [{type: ema}]\n")}) {
    EXPECT_EQ(plan.built_bytes, plan.memory.weights + plan.memory.others);
  }
  const Plan averaged = plan_of_text(text + "callbacks: [{type: ema}]\n");
  EXPECT_EQ(averaged.memory.others, averaged.memory.weights);
}

/// What an optimizer, precision or model really keeps after a step is what was planned.
TEST(PlanTest, OptimizersKeepWhatWasPlanned) {
  for (const std::string& name : all_components().of<Optimizer>().names()) {
    const std::string text = std::string(kMlp) + "optimizer: {type: " + name + ", lr: 0.001}\n";
    const Plan plan = plan_of_text(text);
    LoadedRecipe loaded = load_recipe(text);
    const auto job = build_job(loaded.recipe, loaded.resolved, loaded.registry);
    Stopwatch watch;
    train_step(*job, job->train_loader->next(), {.step = 1}, watch);
    int64_t bytes = 0;
    for (const OptimizerState::Group& group : job->optimizer->state().groups) {
      for (const OptimizerState::ParameterState& parameter : group.parameters) {
        for (const Parameter& slot : parameter.slots) {
          bytes += static_cast<int64_t>(slot.local.nbytes());
        }
      }
    }
    EXPECT_EQ(plan.memory.optimizer, bytes) << name;
  }
}

TEST(PlanTest, PrecisionsAndModelsArePlanned) {
  for (const std::string precision : {"no", "bf16", "fp16"}) {
    const Plan plan =
        plan_of_text(std::string(kMlp) + "accelerator: {mixed_precision: '" + precision + "'}\n");
    EXPECT_EQ(plan.memory.optimizer, 8 * plan.trained + 4 * 4) << precision;
  }
  const Plan images = plan_of_text(
      "model: {type: resnet, embedding_size: 4}\n"
      "data: {train: {type: synthetic/glyphs, length: 64}}\n"
      "train: {until: 1 epochs, batch: 16}\n");
  EXPECT_GT(images.memory.weights, 4 * images.parameters);  // with running statistics
  const std::string sums =
      "data: {train: {type: synthetic/addition}}\n"
      "train: {until: 1 epochs, batch: 16}\n";
  for (const std::string model : {"gpt", "llama"}) {
    EXPECT_GT(plan_of_text("model: " + model + "\n" + sums).flops, 1e6) << model;
  }
}

/// Bytes for a purpose, over all groups.
int64_t sent(const Plan& plan, const std::string& purpose) {
  int64_t bytes = 0;
  for (const auto& [key, item] : plan.traffic) bytes += key.purpose == purpose ? item.bytes : 0;
  return bytes;
}

struct TrafficCase {
  const char* options;  ///< of `accelerator`
  int64_t parameters, gradients;
};

TEST(PlanTest, WhatRanksSend) {
  constexpr int64_t kLayers = 4, kWidth = 16, kBlock = 12 * kWidth * kWidth + 13 * kWidth;
  constexpr int64_t kMatrices = 12 * kWidth * kWidth, kItems = 12;  // of a block's 12 parameters
  const auto plan = [](const std::string& options, int64_t accumulation) {
    return plan_of_text(
        "model: {type: gpt, num_layers: 4, num_heads: 2, hidden_size: 16}\n"
        "data: {train: {type: synthetic/addition}}\n"
        "train: {until: 4 steps, micro_batch: 2, batch: " +
            std::to_string(4 * accumulation) + "}\naccelerator: {" + options + "}\n",
        2);
  };
  // Both embeddings have an odd number of rows, and get one of padding.
  const int64_t parameters = plan("", 1).parameters;
  const int64_t all = parameters + 2 * kWidth, root = all - kLayers * kBlock;
  // Of each collective half, and a number per gradient of both ranks says which there are.
  const int64_t flags = 2 * (kLayers * kItems + 4);
  const int64_t sums = 4 * (all + flags) / 2;
  // The block that runs last is kept for the backward pass.
  const int64_t twice = 4 * (root + (2 * kLayers - 1) * kBlock) / 2;
  const int64_t in_bf16 = twice - 2 * (2 * kLayers - 1) * kMatrices / 2;
  const TrafficCase cases[] = {
      {"fsdp: {stage: 1}", 4 * all / 2, sums},
      {"fsdp: {stage: 2}", 4 * all / 2, sums},
      {"fsdp: {stage: 3}", twice, sums},
      {"fsdp: {stage: 3}, mixed_precision: bf16", in_bf16, sums},
      {"fsdp: {stage: 3, reduce_dtype: bf16}", twice, sums / 2},
      {"fsdp: {stage: 3, reshard_after_forward: false}", 4 * all / 2, sums}};
  for (const TrafficCase& item : cases) {
    const Plan planned = plan(item.options, 1);
    EXPECT_EQ(sent(planned, "parameters"), item.parameters) << item.options;
    EXPECT_EQ(sent(planned, "gradients"), item.gradients) << item.options;
  }
  EXPECT_EQ(sent(plan("", 3), "gradients"), 2 * 4 * (parameters + flags / 2) / 2);
  // The root unit is gathered once per step.
  EXPECT_EQ(sent(plan("fsdp: {stage: 3}", 3), "parameters"), 3 * twice - 2 * 4 * root / 2);
  EXPECT_EQ(sent(plan("fsdp: {stage: 3}", 3), "gradients"), 3 * sums);
  EXPECT_EQ(sent(plan("fsdp: {stage: 3, sync_each_batch: false}", 3), "gradients"), sums);
  EXPECT_EQ(sent(plan("fsdp: {stage: 2}", 3), "parameters"), 4 * all / 2);
}

/// Bytes in a group for all purposes.
double sent_in(const Plan& plan, const GroupShape& group) {
  double bytes = 0;
  for (const auto& [key, item] : plan.traffic) {
    bytes += key.group == group ? static_cast<double>(item.bytes) : 0;
  }
  return bytes;
}

/// gpipe keeps activations of all micro-batches, so that those of the further ones are
/// extrapolated; other schedules reach their peak with few.
TEST(PlanTest, FewMicroBatchesGiveThePlanOfAll) {
  for (const std::string schedule : {"gpipe", "1f1b", "interleaved_1f1b", "zbh1", "zbv"}) {
    for (const std::string checkpointing : {"none", "selective", "blocks"}) {
      if (checkpointing != "none" && schedule[0] == 'z') continue;  // refused
      const std::string text =
          "model: {type: gpt, num_layers: 8, num_heads: 2, hidden_size: 64, vocab_size: 99}\n"
          "data: {train: {type: synthetic/addition, length: 4096}}\n"
          "train: {until: 4 steps, micro_batch: 32, batch: 640, activation_checkpointing: " +
          checkpointing +
          "}\naccelerator: {parallelism: {pp: 4}, pipeline: {schedule: " + schedule + "}}\n";
      const Plan all = plan_of_text(text, 4);
      const Plan few = plan_of_text(text, {4, PlanDetail::kExtrapolated});
      EXPECT_EQ(few.rank_flops, all.rank_flops) << text;
      EXPECT_EQ(few.traffic.size(), all.traffic.size()) << text;
      EXPECT_EQ(few.memory.state(), all.memory.state()) << text;
      const double ratio =
          static_cast<double>(few.memory.activations) / static_cast<double>(all.memory.activations);
      EXPECT_NEAR(ratio, 1, schedule == "gpipe" ? 0.05 : 0.005) << text;
    }
  }
}

TEST(PlanTest, SelectiveCheckpointingStoresLessAndComputesNoProductTwice) {
  const auto plan = [](const std::string& checkpointing) {
    return plan_of_text(
        "model: {type: llama, num_layers: 12, num_heads: 2, hidden_size: 64, vocab_size: 99}\n"
        "data: {train: {type: synthetic/addition, length: 64}}\n"
        "train: {until: 4 steps, batch: 32, activation_checkpointing: " +
            checkpointing + "}\n",
        1);
  };
  const Plan none = plan("none"), selective = plan("selective"), blocks = plan("blocks");
  EXPECT_EQ(selective.flops, none.flops);
  EXPECT_GT(blocks.flops, none.flops);
  EXPECT_LT(selective.memory.activations, 0.75 * static_cast<double>(none.memory.activations));
  EXPECT_LT(blocks.memory.activations, selective.memory.activations);
}

/// The last stage has the untied head of a large vocabulary, or more blocks.
TEST(PlanTest, MemoryIsThatOfTheLargestRank) {
  const auto plan = [](const std::string& blocks, const std::string& tied) {
    return plan_of_text(
        "model: {type: gpt, num_layers: 4, num_heads: 2, hidden_size: 64, vocab_size: 50000, "
        "tie_embeddings: " +
            tied +
            "}\ndata: {train: {type: synthetic/addition, length: 64}}\n"
            "train: {until: 4 steps, micro_batch: 1, batch: 4}\n"
            "accelerator: {parallelism: {pp: 2, tp: 2}, pipeline: {blocks: " +
            blocks + "}}\n",
        4);
  };
  const Plan even = plan("[2, 2]", "false");
  const std::vector<PlannedStage>& ranks = even.pipeline->ranks;
  EXPECT_EQ(even.largest_rank, 0) << "two micro-batches are under way on the first stage";
  EXPECT_NEAR(even.memory.weights, ranks[0].weights, 256) << "and the tensors of the other stage";
  const Plan uneven = plan("[1, 3]", "false");
  EXPECT_EQ(uneven.largest_rank, 2);
  EXPECT_NEAR(uneven.memory.weights, uneven.pipeline->ranks[1].weights, 256);
  EXPECT_NEAR(uneven.memory.optimizer, uneven.pipeline->ranks[1].optimizer, 256);
  EXPECT_GT(uneven.memory.weights, uneven.pipeline->ranks[0].weights);
}

/// A mesh of data and tensor parallel ranks, of the numbers of ranks of published runs.
TEST(PlanTest, TrafficOfLargeMeshesFollowsTheFormulas) {
  constexpr int64_t kTensor = 8, kMicroBatches = 2, kTokens = 9, kWidth = 64, kLayers = 2;
  const auto plan = [](int64_t ranks) {
    return plan_of_text(
        "model: {type: llama, num_layers: 2, num_heads: 8, hidden_size: 64, vocab_size: 4096}\n"
        "data: {train: {type: synthetic/addition, length: 65536}}\n"
        "train: {until: 4 steps, micro_batch: 1, batch: " +
            std::to_string(ranks / kTensor * kMicroBatches) +
            "}\naccelerator: {parallelism: {tp: 8}}\n",
        ranks);
  };
  // Two in each layer's forward pass, two in its backward pass; one of the embedding, one of the
  // head.
  const double activations = 4.0 * kTokens * kWidth * (4 * kLayers + 2) * kMicroBatches;
  for (const int64_t ranks : {64, 1024, 16384}) {
    const Plan planned = plan(ranks);
    EXPECT_EQ(planned.ranks(), ranks);
    EXPECT_NEAR(sent_in(planned, {kTensor, 1}) / (activations * 2 * 7 / 8), 1, 0.05) << ranks;
    const int64_t data = ranks / kTensor;
    const double gradients = 4.0 * static_cast<double>(planned.parameters) / kTensor;
    EXPECT_NEAR(static_cast<double>(sent(planned, "gradients")) /
                    (gradients * 2 * static_cast<double>(data - 1) / static_cast<double>(data)),
                1, 0.02)
        << ranks;
    EXPECT_TRUE(planned.traffic.contains({{data, kTensor}, "gradients"})) << ranks;
  }
}

/// Of a small llama on a processor with little memory.
MeshSearch search_of_llama(int64_t ranks, size_t top) {
  const std::string text =
      "model: {type: llama, num_layers: 2, num_heads: 4, num_kv_heads: 2, hidden_size: 32}\n"
      "data: {train: {type: synthetic/addition, length: 1024}}\n"
      "train: {until: 4 steps, micro_batch: 1, batch: 16}\n";
  const LoadedRecipe alone = load_recipe(text);
  const DataSchema data = open_data(alone.recipe, alone.resolved, alone.registry);
  MeshRequest request{ranks, hardware_of({"h100", "memory=2148.0e6"}), {}, {}, top};
  request.whole = plan_state(alone.recipe, alone.resolved, alone.registry, data, 1);
  return search_meshes(request, [&](const std::vector<std::string>& overrides) {
    const auto value = [&](size_t i) { return overrides[i].substr(overrides[i].find('=') + 1); };
    const LoadedRecipe loaded =
        load_recipe(text + "accelerator: {num_processes: " + value(0) +
                    ", fsdp: {stage: " + value(1) + "}, parallelism: " + value(2) + "}\n");
    return make_plan(loaded.recipe, loaded.resolved, loaded.registry, data,
                     {ranks, PlanDetail::kExtrapolated});
  });
}

int64_t meshes_of(const MeshSearch& search) {
  int64_t count = static_cast<int64_t>(search.fitting.size()) + search.too_large + search.slower;
  for (const auto& [reason, refused] : search.refused) count += refused;
  return count;
}

TEST(PlanTest, ASearchOfTheFastestMeshesFindsThoseOfASearchOfAll) {
  int64_t slower = 0, too_large = 0;
  for (const int64_t ranks : {4, 8}) {
    const MeshSearch all = search_of_llama(ranks, 1000);
    EXPECT_EQ(all.slower, 0);
    too_large += all.too_large;
    constexpr size_t kTop = 3;
    ASSERT_GT(all.fitting.size(), kTop);
    const MeshSearch search = search_of_llama(ranks, kTop);
    ASSERT_GE(search.fitting.size(), kTop);
    for (size_t i = 0; i < kTop; ++i) {
      EXPECT_EQ(search.fitting[i].choice.overrides(), all.fitting[i].choice.overrides()) << ranks;
      EXPECT_EQ(search.fitting[i].time.total(), all.fitting[i].time.total()) << ranks;
    }
    EXPECT_EQ(meshes_of(search), meshes_of(all));
    slower += search.slower;
  }
  EXPECT_GT(slower, 0);
  EXPECT_GT(too_large, 0);
}

TEST(PlanTest, AModelThatNoMachineHolds) {
  const Plan plan = plan_of_text(
      "model: {type: gpt, num_layers: 96, num_heads: 96, hidden_size: 12288}\n"
      "data: {train: {type: synthetic/addition}}\n"
      "train: {until: 1 epochs, batch: 16}\n");
  EXPECT_GT(plan.parameters, 170'000'000'000);
  EXPECT_EQ(plan.memory.weights, 4 * plan.parameters);
}

TEST(PlanTest, APlanLeavesTheRandomStateAlone) {
  const LoadedRecipe loaded = load_recipe(kMlp);
  const auto draw = [&](bool plans) {
    const auto job = build_job(loaded.recipe, loaded.resolved, loaded.registry);
    if (plans) make_plan(loaded.recipe, loaded.resolved, loaded.registry, {job->data, 320, 0}, 1);
    Stopwatch watch;
    return train_step(*job, job->train_loader->next(), {.step = 1}, watch).loss;
  };
  EXPECT_EQ(draw(false), draw(true));
}

/// Answers by a table: the bytes of the plan with these overrides.
Replan table(std::map<std::string, int64_t> bytes) {
  return [bytes](const std::vector<std::string>& overrides) -> std::optional<Plan> {
    std::string key;
    for (const std::string& text : overrides) key += (key.empty() ? "" : " ") + text;
    const auto found = bytes.find(key);
    if (found == bytes.end()) return std::nullopt;
    Plan plan;
    plan.memory.weights = found->second;
    return plan;
  };
}

std::vector<std::string> advised(const std::map<std::string, int64_t>& bytes) {
  Plan plan;
  plan.memory.weights = 900;
  plan.memory.copy = 100;
  plan.batches = {.batch = 8, .micro_batch = 8, .accumulation = 1, .world = 1};
  std::vector<std::string> texts;
  for (const Advice& advice : advise(load_recipe(kMlp).recipe, plan, 50, 550, table(bytes))) {
    std::string text = std::to_string(advice.bytes) + ":";
    for (const std::string& item : advice.overrides) text += " " + item;
    texts.push_back(text);
  }
  return texts;
}

TEST(AdviceTest, TheCheapestThatFitAlone) {
  const std::map<std::string, int64_t> bytes = {
      {"checkpoint.async=false", 900},  {"data.loader.prefetch=1", 500},
      {"train.micro_batch=4", 600},     {"train.micro_batch=2", 450},
      {"train.micro_batch=1", 400},     {"accelerator.mixed_precision=bf16", 300},
      {"optimizer.type=adafactor", 200}};
  const std::vector<std::string> wanted = {"550: data.loader.prefetch=1",
                                           "500: train.micro_batch=2",
                                           "350: accelerator.mixed_precision=bf16"};
  EXPECT_EQ(advised(bytes), wanted);
}

TEST(AdviceTest, ALowerStageThatFits) {
  RecipeOptions recipe = load_recipe(kMlp).recipe;
  recipe.accelerator.fsdp.stage = 3;
  const std::map<std::string, int64_t> bytes = {{"accelerator.fsdp.stage=0", 900},
                                                {"accelerator.fsdp.stage=1", 480},
                                                {"accelerator.fsdp.stage=2", 400}};
  EXPECT_EQ(lower_stage_line(recipe, 50, 550, table(bytes)),
            "a lower stage fits too: accelerator.fsdp.stage=1 takes 530 B per rank");
  EXPECT_EQ(lower_stage_line(recipe, 50, 400, table(bytes)), "");
}

TEST(AdviceTest, ADiskWhereNoStageFits) {
  EXPECT_EQ(
      advised({{"train.micro_batch=1", 800},
               {"accelerator.fsdp.stage=3 accelerator.fsdp.offload=disk", 450}}),
      (std::vector<std::string>{"500: accelerator.fsdp.stage=3 accelerator.fsdp.offload=disk"}));
}

TEST(AdviceTest, AMemoryThatHoldsWhatIsOnTheDisk) {
  RecipeOptions recipe = load_recipe(kMlp).recipe;
  recipe.accelerator.fsdp.stage = 3;
  recipe.accelerator.fsdp.offload = Offload::kDisk;
  const std::map<std::string, int64_t> bytes = {{"accelerator.fsdp.offload=none", 480}};
  EXPECT_EQ(lower_stage_line(recipe, 50, 550, table(bytes)),
            "memory holds the training state too: accelerator.fsdp.offload=none takes 530 B per "
            "rank");
  EXPECT_EQ(lower_stage_line(recipe, 50, 500, table(bytes)), "");
  recipe.accelerator.fsdp.offload_path = {"/x"};
  EXPECT_EQ(lower_stage_line(recipe, 50, 550, table(bytes)), "") << "the path is left out too";
}

TEST(AdviceTest, SeveralTogetherWhenNoneIsEnoughAlone) {
  const std::string both = "checkpoint.async=false accelerator.mixed_precision=bf16";
  EXPECT_EQ(advised({{"checkpoint.async=false", 900},
                     {"accelerator.mixed_precision=bf16", 600},
                     {both, 500}}),
            std::vector<std::string>{"550: " + both});
  EXPECT_TRUE(advised({{"checkpoint.async=false", 900}}).empty());
  EXPECT_TRUE(advised({}).empty());
}

}  // namespace
}  // namespace accel::plan_test
