#include "train/control/live_options.h"

#include <gtest/gtest.h>

#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/job/make_job.h"
#include "train/step/train_step.h"

namespace accel::live_options_test {
namespace {

std::unique_ptr<Job> live_job(const std::string& optimizer) {
  return make_job(
      "model: {type: mlp, hidden_sizes: [8]}\n"
      "data: {train: {type: synthetic/glyphs, length: 32}, loader: {workers: 0}}\n"
      "train: {until: 2 epochs, batch: 16}\n"
      "optimizer: " +
      optimizer + "\n");
}

double step_loss(Job& job, int64_t step) {
  Stopwatch watch;
  job.optimizer->set_lrs(job.optimizer->base_lrs());
  return train_step(job, job.train_loader->next(), {.step = step}, watch).loss;
}

TEST(LiveOptionsTest, ARunGoesOnAsOneThatIsResumedWithTheValue) {
  const auto changed = live_job("{type: adamw, lr: 0.01}");
  const auto other = live_job("{type: adamw, lr: 0.002}");
  step_loss(*changed, 1);
  // The same state under the other rate.
  other->optimizer->load(changed->optimizer->state());
  for (size_t i = 0; i < other->parameters.size(); ++i) {
    other->parameters[i].local.mutable_grad().reset();
    other->parameters[i].local.detach().copy_(changed->parameters[i].local.detach());
  }
  other->train_loader->seek(0, 1);
  const LiveChange change = read_change(*changed, "lr=2e-3");
  EXPECT_EQ(change.key, "optimizer.lr");
  EXPECT_EQ(change.was, "0.01");
  EXPECT_EQ(change.is, "0.002");
  apply_change(*changed, change);
  EXPECT_EQ(to_yaml(changed->resolved), to_yaml(other->resolved));
  for (int64_t step = 2; step <= 4; ++step) {
    EXPECT_EQ(step_loss(*changed, step), step_loss(*other, step)) << step;
  }
}

TEST(LiveOptionsTest, StateOnTheDiskHasNoSpaceForASecondOptimizer) {
  const TempFolder folder;
  const auto job = live_job(
      "{type: sgd, momentum: 0.9}\naccelerator: {fsdp: {stage: 3, offload: "
      "disk, offload_path: " +
      folder.path() + "}}");
  try {
    read_change(*job, "lr=0.5");
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "'optimizer.lr' cannot be changed during training with 'offload: disk', whose "
                 "scratch file has no space for a second optimizer");
    EXPECT_EQ(error.hint(),
              "stop the run, and resume it with 'optimizer.lr=0.5' and --allow optimizer.lr");
  }
  EXPECT_EQ(read_change(*job, "log.every=3 steps").is, "3 steps");
}

TEST(LiveOptionsTest, EveryOneIsAnOptionThatChanges) {
  const std::map<std::string, std::string> values = {
      {"optimizer.lr", "0.5"},        {"optimizer.weight_decay", "0.25"},
      {"train.max_grad_norm", "2"},   {"train.max_grad_value", "3"},
      {"eval.every", "7 steps"},      {"checkpoint.every", "5 min"},
      {"checkpoint.at_end", "false"}, {"log.every", "3 steps"}};
  ASSERT_EQ(values.size(), live_options().size());
  for (const std::string& key : live_options()) {
    const auto job = live_job("sgd");
    const LiveChange change = read_change(*job, key + "=" + values.at(key));
    EXPECT_EQ(change.is, values.at(key));
    apply_change(*job, change);
    EXPECT_EQ(option_text(job->resolved, key), values.at(key));
    EXPECT_EQ(option_text(resolve_recipe(job->recipe, job->resolved), key), values.at(key));
    apply_change(*job, {key, change.is, change.was});
    EXPECT_EQ(to_yaml(job->resolved), to_yaml(live_job("sgd")->resolved)) << key;
  }
}

TEST(LiveOptionsTest, WhatIsRefused) {
  const auto job = live_job("muon");
  const auto refusal = [&](const std::string& order) {
    try {
      read_change(*job, order);
    } catch (const Error& error) {
      return std::string(error.what()) + " | " + error.hint();
    }
    return std::string("nothing");
  };
  const std::string these =
      "the options that can be changed: optimizer.lr, optimizer.weight_decay, train.max_grad_norm, "
      "train.max_grad_value, eval.every, checkpoint.every, checkpoint.at_end, log.every";
  EXPECT_EQ(refusal("seed=3"), "'seed' cannot be changed during training | " + these);
  EXPECT_EQ(refusal("lr"), "'optimizer.lr' cannot be changed during training | " + these);
  EXPECT_EQ(refusal("lr=fast"), "'lr' wants a number, not 'fast' | ");
  EXPECT_EQ(refusal("~optimizer.lr"),
            "no recipe has '~optimizer.lr' | did you mean 'optimizer.lr'?");
  EXPECT_EQ(refusal("foo=1"), "no recipe has 'foo' | " + these);
  EXPECT_EQ(refusal("eval.evry=1"), "no recipe has 'eval.evry' | did you mean 'eval.every'?");
  EXPECT_EQ(refusal("log.every=often"),
            "'every' wants a duration such as '500 steps' or '3 epochs', not 'often' | ");
}

}  // namespace
}  // namespace accel::live_options_test
