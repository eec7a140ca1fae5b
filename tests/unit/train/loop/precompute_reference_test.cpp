// Runs whose reference is scored before the first step, against runs that compute it in each step.
#include "train/loop/precompute_reference.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "core/base/text.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/job/make_job.h"
#include "train/loop/run.h"
#include "train/tasks/reference_model.h"

namespace accel::precompute_reference_test {
namespace {

namespace fs = std::filesystem;

std::string source(const std::string& path) {
  return std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/recipes/tiny/data/" + path;
}

/// `task` without its closing brace; two epochs, with an evaluation in between.
std::string recipe(const std::string& task, const std::string& data, const std::string& more) {
  const bool pairs = data.starts_with("prefs");
  const std::string rows = std::string("{type: ") + (pairs ? "preference" : "unpaired") +
                           ", tokenizer: " + source("talks") + ", max_length: 96, path: ";
  return "model: {type: auto, weights: " + source("talker") + "}\ntask: {" + task +
         ", reference: {type: auto, weights: " + source("talker") + "}" + more + "}\ndata:\n" +
         "  train: " + rows + source(data + ".jsonl") + ", head: 20}\n" + "  eval: " + rows +
         source(data + "_eval.jsonl") + ", head: 7}\n" +
         "optimizer: {type: adamw, lr: 0.003}\neval: {every: 3 steps}\n" +
         "train: {until: 8 steps, batch: 6, micro_batch: 3}\nlog: {every: 1 step}\n" +
         "accelerator: {num_cpu_threads_per_process: 1}\n";
}

struct Result {
  std::vector<double> losses;
  double eval_loss = 0;
};

Result run(const std::string& text, const std::string& dir, std::optional<int64_t> stop = {}) {
  const auto job = make_job(text);
  RunRequest request;
  request.run_dir = dir;
  request.stop_after = stop;
  run_job(*job, request);
  Result result;
  std::ifstream record(dir + "/metrics.jsonl");
  for (std::string line; std::getline(record, line);) {
    const auto number = [&](const char* key) {
      const size_t at = line.find(key);
      return at == line.npos ? std::nan("") : std::stod(line.substr(at + std::string(key).size()));
    };
    const double loss = number("\"train/loss\":"), eval = number("\"eval/loss\":");
    if (!std::isnan(loss)) result.losses.push_back(loss);
    if (!std::isnan(eval)) result.eval_loss = eval;
  }
  return result;
}

struct Case {
  const char* task;
  const char* data;
};

constexpr Case kCases[] = {{"type: dpo, beta: 0.5", "prefs"},
                           {"type: dpo, beta: 0.5, loss_type: ipo", "prefs"},
                           {"type: kto, beta: 0.5", "answers"},
                           {"type: kto, loss_type: apo_zero_unpaired", "answers"}};

constexpr auto kOption = ", precompute_ref_log_probs: true";

void expect_near(const Result& found, const Result& wanted) {
  ASSERT_EQ(found.losses.size(), wanted.losses.size());
  ASSERT_FALSE(found.losses.empty());
  for (size_t i = 0; i < found.losses.size(); ++i) {
    EXPECT_NEAR(found.losses[i], wanted.losses[i], 1e-6) << "step " << i + 1;
  }
  EXPECT_NEAR(found.eval_loss, wanted.eval_loss, 1e-6);
}

TEST(PrecomputeReferenceTest, LossesAreThoseOfTheReferenceItself) {
  for (const Case& c : kCases) {
    const TempFolder folder;
    const Result plain = run(recipe(c.task, c.data, ""), folder.path() + "/plain");
    const Result scored = run(recipe(c.task, c.data, kOption), folder.path() + "/scored");
    SCOPED_TRACE(c.task);
    expect_near(scored, plain);
    EXPECT_FALSE(fs::exists(folder.path() + "/plain/" + kReferenceScoresFile));
    EXPECT_TRUE(fs::exists(folder.path() + "/scored/" + kReferenceScoresFile));
  }
}

TEST(PrecomputeReferenceTest, AResumedRunTakesTheScoresOfItsStart) {
  for (const Case& c : {kCases[0], kCases[2]}) {
    const TempFolder folder;
    const std::string text = recipe(c.task, c.data, kOption), parts = folder.path() + "/parts";
    const Result whole = run(text, folder.path() + "/whole");
    run(text, parts, 5);
    const auto written = fs::last_write_time(parts + "/" + kReferenceScoresFile);
    const Result resumed = run(text, parts);
    EXPECT_EQ(fs::last_write_time(parts + "/" + kReferenceScoresFile), written);
    SCOPED_TRACE(c.task);
    ASSERT_EQ(resumed.losses.size(), whole.losses.size());
    for (size_t i = 0; i < whole.losses.size(); ++i) {
      EXPECT_EQ(resumed.losses[i], whole.losses[i]) << "step " << i + 1;
    }
  }
}

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST(PrecomputeReferenceTest, ScoresOfAnotherRecipeOrADamagedFileAreComputedAgain) {
  const TempFolder folder;
  const std::string text = recipe(kCases[0].task, "prefs", kOption);
  const Result whole = run(text, folder.path() + "/whole");
  for (const char* content : {"", "no scores"}) {
    const std::string dir = folder.path() + "/run" + std::to_string(std::string(content).size());
    fs::create_directories(dir);
    std::ofstream(dir + "/" + kReferenceScoresFile) << content;
    expect_near(run(text, dir), whole);
  }
  const std::string damaged = folder.path() + "/damaged";
  fs::create_directories(damaged);
  std::string bytes = bytes_of(folder.path() + "/whole/" + kReferenceScoresFile);
  bytes[bytes.size() - 2] ^= 0x10;  // of the last score
  bytes[bytes.find('\n') + 3] ^= 0x10;
  std::ofstream(damaged + "/" + kReferenceScoresFile) << bytes;
  expect_near(run(text, damaged), whole);
  EXPECT_EQ(bytes_of(damaged + "/" + kReferenceScoresFile),
            bytes_of(folder.path() + "/whole/" + kReferenceScoresFile));
  const std::string other = folder.path() + "/other";
  run(recipe("type: dpo, beta: 0.1", "prefs", kOption), other, 1);
  const std::string scores = folder.path() + "/again";
  fs::create_directories(scores);
  fs::copy(other + "/" + kReferenceScoresFile, scores + "/" + kReferenceScoresFile);
  expect_near(run(text, scores), whole);
}

TEST(PrecomputeReferenceTest, TheReferenceIsNoModelOfTheJob) {
  const auto job = make_job(recipe(kCases[0].task, "prefs", kOption));
  EXPECT_TRUE(job->task_models.empty());
  const TempFolder folder;
  const std::string place = folder.path() + "/" + kReferenceScoresFile;
  for (const std::string how : {"computed, kept in", "read from"}) {
    testing::internal::CaptureStdout();
    precompute_reference(*job, RunState(), folder.path());
    const std::string said = testing::internal::GetCapturedStdout();
    const std::string wanted =
        text("reference log-probabilities {} '{}'; the reference is not in memory", how, place);
    EXPECT_NE(said.find(wanted), said.npos) << said;
  }
}

std::string refusal(const std::string& text) {
  try {
    make_job(text);
  } catch (const RecipeError& error) {
    return error.what();
  }
  return "";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(PrecomputeReferenceTest, MismatchedAnswersMustBeKnownBeforeTheRun) {
  const std::string text = recipe("type: kto", "answers", kOption);
  EXPECT_EQ(refusal(text), "");
  const std::string by_time = refusal(replaced(text, "until: 8 steps", "until: 1 min"));
  EXPECT_NE(by_time.find("'precompute_ref_log_probs' of the loss 'kto' scores the answers of each "
                         "micro-batch of the run, which has no known number of steps"),
            by_time.npos)
      << by_time;
  const std::string automatic = refusal(replaced(text, ", micro_batch: 3", ""));
  EXPECT_NE(automatic.find("'precompute_ref_log_probs' of the loss 'kto' scores the answers of "
                           "each micro-batch, which an automatic 'micro_batch' may change"),
            automatic.npos)
      << automatic;
}

TEST(PrecomputeReferenceTest, AnUnforeseenMicroBatchIsAnError) {
  const auto job = make_job(recipe("type: kto", "answers", kOption));
  auto& task = dynamic_cast<PrecomputesReference&>(*job->task);
  ReferenceScores train, eval;
  train.rows = at::zeros({20, 1});
  task.set_reference(train, eval);
  Batch batch;
  batch.inputs = at::ones({2, 3}, at::kLong);
  batch.targets = at::ones({2, 3}, at::kLong);
  batch.segments = at::ones({2, 3}, at::kLong);
  batch.lengths = at::full({2}, 3, at::kLong);
  batch.ids = {4, 7};
  try {
    job->task->loss(*job->model, batch);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "'precompute_ref_log_probs' has no score for the answer of sample 7 after the "
                 "prompt of sample 4: the run is longer than at its start, or has other "
                 "micro-batches");
  }
}

}  // namespace
}  // namespace accel::precompute_reference_test
