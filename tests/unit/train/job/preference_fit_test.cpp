// The reference of preference tasks: the model without its adapter, or another model.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/base/text.h"
#include "data/loader/loader.h"
#include "models/layers/module_state.h"
#include "models/lora/lora_folder.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/job/make_job.h"
#include "train/step/device_batches.h"
#include "train/step/train_step.h"

namespace accel::preference_fit_test {
namespace {

std::string source(const std::string& path) {
  return std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/recipes/tiny/data/" + path;
}

/// A recipe of the tiny chat model; `more` are options of the model.
std::string recipe(const std::string& more, const std::string& task) {
  return "model: {type: auto, weights: " + source("talker") + more + "}\ntask: " + task +
         "\ndata:\n  train: {type: preference, path: " + source("prefs.jsonl") +
         ", tokenizer: " + source("talks") +
         ", max_length: 96}\ntrain: {until: 1 step, batch: 4}\n";
}

std::string complaint(const std::string& text) {
  try {
    make_job(text);
  } catch (const RecipeError& error) {
    return error.what();
  }
  return "";
}

constexpr auto kAdapter = ", lora: {rank: 2, alpha: 4}";

TEST(PreferenceFitTest, WithoutAnAdapterAReferenceIsNeeded) {
  EXPECT_EQ(complaint(recipe("", "{type: dpo}")),
            "r.yaml:2:7: error: the task 'dpo' needs a 'reference': the model has no LoRA adapter "
            "that could be switched off\n"
            "    task: {type: dpo}\n"
            "          ^\n"
            "  hint: copy the section 'model' into it, or name another model\n");
  EXPECT_EQ(complaint(recipe(kAdapter, "{type: dpo}")), "");
}

TEST(PreferenceFitTest, AReferenceWithRandomWeightsIsRefused) {
  const std::string found =
      complaint(recipe("", "{type: dpo, reference: {type: gpt, num_layers: 1, hidden_size: 8}}"));
  EXPECT_NE(found.find("'reference' has no 'weights': it would be a model with random weights, and "
                       "another one at each start"),
            std::string::npos)
      << found;
}

TEST(PreferenceFitTest, AnAdapterIsNoReferenceIfMoreIsTrained) {
  const std::string found = complaint(
      recipe(", lora: {rank: 2, alpha: 4, modules_to_save: [model.norm.*]}", "{type: dpo}"));
  EXPECT_NE(found.find("error: the task 'dpo' needs a 'reference': 'model.norm.weight' is trained "
                       "besides the adapter\n"),
            std::string::npos)
      << found;
}

TEST(PreferenceFitTest, AnAdapterThatTakesAPartOfTheWeightsIsNoReference) {
  const std::string found = complaint(recipe(
      ", lora: {rank: 2, alpha: 4, target_modules: ['*.q_proj'], init: pissa}", "{type: dpo}"));
  EXPECT_NE(found.find("'init: pissa' moves a part of the weights into the adapter"), found.npos)
      << found;
}

TEST(PreferenceFitTest, KtoNeedsSeveralAnswersInAMicroBatch) {
  std::string text = recipe(kAdapter, "{type: kto}") + "  \n";
  const auto replace = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("type: preference", "type: unpaired");
  replace("prefs.jsonl", "answers.jsonl");
  EXPECT_EQ(complaint(text), "");
  replace("batch: 4", "batch: 4, micro_batch: 1");
  const std::string found = complaint(text);
  EXPECT_NE(found.find("the task 'kto' compares the samples of a micro-batch, which has only one"),
            found.npos)
      << found;
  EXPECT_NE(found.find("hint: set 'train.micro_batch' to 2 or more"), found.npos);
  replace("{type: kto}", "{type: kto, loss_type: apo_zero_unpaired}");
  EXPECT_EQ(complaint(text), "");
}

TEST(PreferenceFitTest, AnOptimizerThatAveragesWeightsAllowsNoOtherAverage) {
  const std::string found = complaint(recipe(kAdapter, "{type: dpo}") +
                                      "optimizer: schedule_free_adamw\ncallbacks: [ema]\n");
  EXPECT_NE(found.find("the optimizer 'schedule_free_adamw' averages weights for evaluations, and "
                       "the callback 'ema' would average others"),
            found.npos)
      << found;
  EXPECT_NE(found.find("hint: leave the callback 'ema' out, or use adamw"), found.npos);
}

TEST(PreferenceFitTest, MarginsOfRewardPairsAreOfAllOrOfNone) {
  const TempFolder work;
  const auto rows = [&](const char* first, const char* second) {
    std::string all;
    for (const char* margin : {first, second}) {
      all += text("{\"prompt\": \"a\", \"chosen\": \"b\", \"rejected\": \"c\"{}}\n", margin);
    }
    return work.write("pairs.jsonl", all);
  };
  const auto found = [&](const char* task, const char* first, const char* second) {
    std::string text = recipe(std::string(task) == "reward" ? ", num_classes: 1" : kAdapter, task);
    const std::string path = source("prefs.jsonl");
    text.replace(text.find(path), path.size(), rows(first, second));
    text.replace(text.find("batch: 4"), 8, "batch: 2");
    testing::internal::CaptureStdout();
    const std::string message = complaint(text);
    return testing::internal::GetCapturedStdout() + message;
  };
  const std::string refused =
      " of 2 pairs have no number in the field 'margin', which the task 'reward' subtracts from "
      "the difference of their rewards\n";
  for (const char* other : {"", ", \"margin\": null", ", \"margin\": \"much\""}) {
    const std::string message = found("reward", ", \"margin\": 0.5", other);
    EXPECT_NE(message.find("error: 1" + refused), message.npos) << message;
    EXPECT_NE(message.find("  hint: give each pair a number, or rename the field: without it all "
                           "margins are 0\n"),
              message.npos)
        << message;
    EXPECT_EQ(found("dpo", ", \"margin\": 0.5", other).find("margin"), std::string::npos);
  }
  const std::string message = found("reward", ", \"margin\": \"much\"", ", \"margin\": []");
  EXPECT_NE(message.find("error: 2" + refused), message.npos) << message;
  EXPECT_NE(found("reward", ", \"margin\": 0.5", ", \"margin\": 2")
                .find("data.train: the task 'reward' uses the field 'margin' of the pairs"),
            std::string::npos);
  EXPECT_EQ(found("reward", "", "").find("margin"), std::string::npos);
}

TEST(PreferenceFitTest, TasksDemandTheirModels) {
  EXPECT_NE(complaint(recipe(", num_classes: 1", "{type: orpo}"))
                .find("the task 'orpo' needs a model that predicts the next token, but the model "
                      "'llama' predicts one output per text"),
            std::string::npos);
  EXPECT_NE(complaint(recipe("", "{type: reward}"))
                .find("the task 'reward' needs a model that predicts one output per text"),
            std::string::npos);
  EXPECT_EQ(complaint(recipe(", num_classes: 1", "{type: reward}")), "");
}

/// The loss of the first batch, with the same adapter that is not zero.
double adapted_loss(const std::string& task) {
  const auto job = make_job(recipe(kAdapter, task));
  for (const Parameter& item : parameters_of(*job->model)) {
    if (item.name.ends_with(kLoraB)) item.local.detach().fill_(0.05);
    if (item.name.ends_with(kLoraA)) item.local.detach().fill_(0.02);
  }
  const DeviceBatches batches(job->train_loader->next(), at::kCPU);
  return job->task->loss(*job->model, batches.list().front()).item<double>();
}

TEST(PreferenceFitTest, TheModelWithoutItsAdapterIsTheModelOfTheFolder) {
  const double loss = adapted_loss("{type: dpo, beta: 2}");
  EXPECT_NE(loss, 0.69314718055994529);  // the adapter counts
  EXPECT_EQ(loss, adapted_loss("{type: dpo, beta: 2, reference: {type: auto, weights: " +
                               source("talker") + "}}"));
}

/// The steps of an epoch of ten pairs in batches of six, in micro-batches of `micro_batch`.
std::vector<StepResult> steps_of(const std::string& task, int64_t micro_batch) {
  std::string text = recipe(kAdapter, task);
  const auto replace = [&](const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
  };
  replace("max_length: 96}", "max_length: 96, limit: 10}");
  replace("batch: 4", "batch: 6, micro_batch: " + std::to_string(micro_batch));
  const auto job = make_job(text + "optimizer: {type: sgd, lr: 0.5}\n");
  for (const Parameter& item : parameters_of(*job->model)) {
    if (item.name.ends_with(kLoraB)) item.local.detach().fill_(0.05);
    if (item.name.ends_with(kLoraA)) item.local.detach().fill_(0.02);
  }
  job->optimizer->set_lrs(job->optimizer->base_lrs());
  std::vector<StepResult> steps;
  Stopwatch watch;
  for (int64_t step = 1; step <= 2; ++step) {
    steps.push_back(train_step(*job, job->train_loader->next(), {.step = step}, watch));
  }
  return steps;
}

TEST(PreferenceFitTest, MicroBatchesEqualOneBigBatchWhereAnswersDifferInLength) {
  for (const std::string task : {"{type: orpo, beta: 0.5}", "{type: dpo, sft_weight: 2}",
                                 "{type: simpo, sft_weight: 2}", "{type: dpo}"}) {
    const auto whole = steps_of(task, 6);
    for (const int64_t micro_batch : {1, 3}) {
      const auto parts = steps_of(task, micro_batch);
      for (size_t i = 0; i < whole.size(); ++i) {
        EXPECT_NEAR(parts[i].loss, whole[i].loss, 2e-6) << task << micro_batch;
        EXPECT_NEAR(parts[i].grad_norm, whole[i].grad_norm, 1e-5 * whole[i].grad_norm)
            << task << micro_batch;
        ASSERT_EQ(parts[i].logged.size(), whole[i].logged.size());
        for (const auto& [name, value] : whole[i].logged) {
          EXPECT_NEAR(parts[i].logged.at(name), value, 2e-5) << task << name;
        }
      }
    }
  }
}

}  // namespace
}  // namespace accel::preference_fit_test
