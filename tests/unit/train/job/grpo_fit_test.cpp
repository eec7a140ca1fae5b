// Jobs of the task `grpo`: refusals, and steps of a tiny model.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>

#include "data/loader/loader.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/job/make_job.h"
#include "train/job/build_completions.h"
#include "train/step/train_step.h"
#include "train/tasks/samples_completions.h"

namespace accel::grpo_fit_test {
namespace {

std::string data_file(const std::string& path) {
  return std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/recipes/tiny/data/" + path;
}

constexpr auto kTinyModel =
    "{type: llama, num_layers: 1, num_heads: 2, hidden_size: 16, intermediate_size: 16}";

/// A recipe on the sums of recipes/tiny.
std::string recipe(const std::string& task, const std::string& train = "batch: 4",
                   const std::string& model = kTinyModel, const std::string& more = "") {
  return "model: " + std::string(model) + "\ntask: {type: grpo, max_completion_length: 4" +
         (task.empty() ? "" : ", ") + task +
         "}\ndata:\n  train: {type: prompts, path: " + data_file("sums.jsonl") +
         ", tokenizer: " + data_file("sums") + ", max_length: 8}\ntrain: {until: 8 steps, " +
         train + "}\n" + more;
}

constexpr auto kRewards = "rewards: [exact_match, {type: length, max_tokens: 3}]";

std::string complaint(const std::string& text) {
  try {
    make_job(text);
  } catch (const RecipeError& error) {
    return error.what();
  }
  return "";
}

/// Without the quoted line, and without the folder of the data.
std::string first_line(const std::string& complaint) {
  std::string line = complaint.substr(0, complaint.find('\n'));
  const std::string folder = data_file("");
  for (size_t at = line.find(folder); at != line.npos; at = line.find(folder)) {
    line.erase(at, folder.size());
  }
  return line;
}

TEST(GrpoFitTest, ARecipeWithRewardsIsAccepted) {
  EXPECT_EQ(complaint(recipe(kRewards)), "");
}

TEST(GrpoFitTest, OptionsWithoutAnEffectAreRefused) {
  const auto refusal = [](const std::string& more) {
    return first_line(complaint(recipe(std::string(kRewards) + ", " + more)));
  };
  EXPECT_EQ(refusal("reward_weights: [1]"),
            "r.yaml:2:117: error: 'reward_weights' has 1 weights for 2 rewards");
  EXPECT_EQ(refusal("epsilon: 0.3"),
            "r.yaml:2:110: error: 'epsilon' has no effect with 'num_iterations: 1': the weights "
            "that sample are those that are updated, and the ratio of their probabilities is 1");
  EXPECT_EQ(refusal("epsilon: 0.3, num_iterations: 2"), "");
  EXPECT_NE(complaint(recipe(std::string(kRewards) + ", delta: 2"))
                .find("hint: leave 'delta' out, or raise 'num_iterations'\n"),
            std::string::npos);
  EXPECT_EQ(refusal("use_bias_correction_kl: false"),
            "r.yaml:2:125: error: 'use_bias_correction_kl' has no effect with 'beta: 0'");
  EXPECT_EQ(refusal(std::string("reference: ") + kTinyModel),
            "r.yaml:2:112: error: 'reference' has no effect with 'beta: 0'");
}

TEST(GrpoFitTest, ADivergenceNeedsAReference) {
  EXPECT_EQ(first_line(complaint(recipe(std::string(kRewards) + ", beta: 0.1"))),
            "r.yaml:2:7: error: the task 'grpo' needs a 'reference': the model has no LoRA adapter "
            "that could be switched off");
}

TEST(GrpoFitTest, CompletionsMustFitTheData) {
  std::string text = recipe(kRewards);
  text.replace(text.find("max_length: 8"), 13, "max_length: 7");
  EXPECT_EQ(first_line(complaint(text)),
            "r.yaml:4:10: error: the longest prompt has 4 tokens, which with a "
            "'max_completion_length' of 4 is more than the 7 tokens of 'max_length'");
  text.replace(text.find("max_completion_length: 4"), 24, "max_completion_length: 7");
  EXPECT_EQ(first_line(complaint(text)),
            "r.yaml:2:7: error: 'max_completion_length' is 7, but the data's 'max_length' of a "
            "prompt with its completion is 7");
}

TEST(GrpoFitTest, ColumnsOfRewardsMustBeInTheData) {
  EXPECT_EQ(first_line(complaint(recipe("rewards: {type: exact_match, column: result}"))),
            "r.yaml:4:10: error: a reward of the task 'grpo' reads the column 'result', which "
            "sample 0 of sums.jsonl does not have");
}

TEST(GrpoFitTest, OtherDataIsRefused) {
  std::string text = recipe(kRewards);
  const size_t begin = text.find("  train: {"), end = text.find('\n', begin);
  text.replace(begin, end - begin,
               "  train: {type: text, path: " + data_file("rhyme.txt") + ", max_seq_len: 8}");
  EXPECT_EQ(first_line(complaint(text)),
            "r.yaml:2:7: error: the task 'grpo' needs prompts, but a sample of the data is I64 "
            "[8] with targets [8]");
}

/// What build_completions() says of an accepted job that `change` has changed.
std::string changed_refusal(const std::function<void(Job&)>& change) {
  const auto job = make_job(recipe(kRewards));
  change(*job);
  try {
    build_completions(*job, [] { return nullptr; });
  } catch (const RecipeError& error) {
    return first_line(error.what());
  }
  return "";
}

TEST(GrpoFitTest, ModelsWithoutACacheAndRanksThatCommunicateAreRefused) {
  EXPECT_EQ(changed_refusal([](Job&) {}),
            "r.yaml:1:8: error: the task 'grpo' samples completions, but the model 'llama' has no "
            "cached decoder");
  EXPECT_EQ(changed_refusal([](Job& job) { job.recipe.accelerator.fsdp.stage = 3; }),
            "error: the task 'grpo' samples completions of different lengths on each "
            "rank, but with 'fsdp.stage: 3' the ranks gather weights in every pass");
  EXPECT_EQ(changed_refusal([](Job& job) {
              job.recipe.accelerator.fsdp.stage = 2;
              job.recipe.data.loader.even_batches = false;
            }),
            "error: the task 'grpo' averages over the tokens of all ranks, and with "
            "'fsdp' and 'even_batches: false' some have samples that do not count");
}

TEST(GrpoFitTest, MaskedTruncationNeedsAnEndToken) {
  TempFolder folder;
  std::ifstream file(data_file("sums/tokenizer.json"));
  folder.write("tokenizer.json",
               std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()));
  std::string text = recipe(std::string(kRewards) + ", mask_truncated_completions: true");
  EXPECT_EQ(complaint(text), "");
  text.replace(text.find(data_file("sums,")), data_file("sums").size(),
               folder.path("tokenizer.json"));
  EXPECT_EQ(first_line(complaint(text)),
            "r.yaml:2:129: error: 'mask_truncated_completions' leaves out all completions: the "
            "tokenizer has no end token");
}

/// A job's steps with the rows that its task samples.
struct Trained {
  std::vector<double> losses;
  std::vector<std::string> rows;
  std::map<std::string, double> logged;  ///< of the last step
};

Trained trained(const std::string& text, int64_t steps) {
  const auto job = make_job(text);
  auto& task = dynamic_cast<SamplesCompletions&>(*job->task);
  Trained out;
  Stopwatch watch;
  for (int64_t step = 1; step <= steps; ++step) {
    const StepResult result =
        train_step(*job, job->train_loader->next(), {.step = step}, watch, {});
    out.losses.push_back(result.loss);
    out.logged = result.logged;
    for (std::string& row : task.take_completion_rows()) out.rows.push_back(std::move(row));
  }
  return out;
}

std::string logging(const std::string& more = "") {
  return std::string(kRewards) + ", num_generations: 4, log_completions: true" + more;
}

TEST(GrpoFitTest, StepsSampleAGroupForEachPromptAndLogRewards) {
  const Trained run = trained(recipe(logging()), 2);
  EXPECT_EQ(run.rows.size(), 2 * 4 * 4);
  EXPECT_NE(run.rows[0].find("{\"step\": 1, \"prompt\": \""), std::string::npos);
  EXPECT_EQ(run.rows.back().find("{\"step\": 2, "), 0);
  for (const char* name :
       {"reward", "reward_std", "rewards/exact_match/mean", "rewards/length/std",
        "frac_reward_zero_std", "completions/mean_length", "completions/clipped_ratio"}) {
    EXPECT_TRUE(run.logged.contains(name)) << name;
  }
  EXPECT_FALSE(run.logged.contains("kl"));
  EXPECT_FALSE(run.logged.contains("clip_ratio/region_mean"));
}

/// The same completions; the gradients' sums differ in rounding.
TEST(GrpoFitTest, MicroBatchesSampleTheSameAndHaveTheSameLoss) {
  for (const char* loss : {"dapo", "grpo", "dr_grpo"}) {
    const std::string task = logging(std::string(", loss_type: ") + loss);
    Trained whole = trained(recipe(task, "batch: 4, micro_batch: 4"), 1);
    Trained parts = trained(recipe(task, "batch: 4, micro_batch: 1"), 1);
    EXPECT_EQ(whole.rows, parts.rows) << loss;
    EXPECT_NEAR(whole.losses[0], parts.losses[0], 1e-6) << loss;
    EXPECT_NEAR(whole.logged.at("reward"), parts.logged.at("reward"), 1e-9) << loss;
  }
}

TEST(GrpoFitTest, FurtherIterationsClipTheRatio) {
  const Trained run =
      trained(recipe(logging(", num_iterations: 3, epsilon: 0.001, scale_rewards: none, beta: 0"),
                     "batch: 8", kTinyModel, "optimizer: {type: adamw, lr: 0.01}\n"),
              2);
  EXPECT_GT(run.logged.at("clip_ratio/region_mean"), 0);
}

/// A reward of the tiny chat model; tokens of the sums are tokens of it too.
std::string reward_model(const std::string& head) {
  return "rewards: {type: model, model: {type: auto, weights: " + data_file("talker") + head +
         "}}, num_generations: 4";
}

TEST(GrpoFitTest, ARewardModelScoresCompletions) {
  const Trained run = trained(recipe(reward_model(", num_classes: 1")), 1);
  EXPECT_TRUE(run.logged.contains("rewards/model/mean"));
  EXPECT_GT(run.logged.at("reward_std"), 0);
  EXPECT_EQ(first_line(complaint(recipe(reward_model("")))),
            "r.yaml:2:7: error: the reward 'model' needs a model with one output per text, but "
            "this one predicts tokens");
  try {
    trained(recipe(reward_model(", num_classes: 2")), 1);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the reward 'model' needs one output per text, but the model's output is [16, 2] "
                 "for 16 texts");
  }
}

TEST(GrpoFitTest, AnAdapterSwitchedOffIsTheReference) {
  const std::string model =
      "{type: llama, num_layers: 1, num_heads: 2, hidden_size: 16, intermediate_size: 16, lora: "
      "{rank: 2, alpha: 4}}";
  const Trained run = trained(
      recipe(logging(", beta: 0.1"), "batch: 4", model, "optimizer: {type: adamw, lr: 0.1}\n"), 3);
  EXPECT_GT(run.logged.at("kl"), 0);
}

}  // namespace
}  // namespace accel::grpo_fit_test
