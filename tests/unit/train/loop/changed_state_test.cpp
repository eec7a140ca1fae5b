// Checkpoints of a recipe with other parameter groups, frozen parameters and callbacks.
#include "train/loop/changed_state.h"

#include <gtest/gtest.h>

#include <map>

#include "tests/unit/train/job/make_job.h"
#include "train/loop/resumable.h"
#include "train/loop/run_state.h"
#include "train/step/train_step.h"

namespace accel::changed_state_test {
namespace {

std::unique_ptr<Job> job_with(const std::string& groups, const std::string& freeze,
                              const std::string& callbacks, const std::string& optimizer = "adamw",
                              const std::string& hidden_sizes = "[8]") {
  return make_job("model: {type: mlp, hidden_sizes: " + hidden_sizes +
                  "}\n"
                  "data: {train: {type: synthetic/glyphs, length: 40}, loader: {workers: 0}}\n"
                  "train: {until: 20 steps, batch: 16, freeze: " +
                  freeze + "}\noptimizer: {type: " + optimizer + ", lr: 0.1, groups: " + groups +
                  "}\ncallbacks: " + callbacks + "\n");
}

void next_step(Job& job, int64_t step) {
  Stopwatch watch;
  job.optimizer->set_lrs(job.optimizer->base_lrs());
  train_step(job, job.train_loader->next(), {.step = step}, watch);
  for (const auto& callback : job.callbacks) callback->on_step(step);
}

/// The state of `before` after two steps, restored into `after`, which then makes a step.
std::vector<std::string> resumed(Job& before, Job& after) {
  for (const int64_t step : {1, 2}) next_step(before, step);
  RunState run;
  run.progress = {.step = 2, .epoch = 0, .step_in_epoch = 2, .samples = 32, .tokens = 0};
  TrainState state = capture(before, run, {});
  const auto changes = check_resumable(after, state, {"optimizer", "train", "callbacks"}, {});
  auto lines = adapt_to_changes(after, changes, state);
  restore(after, state);
  return lines;
}

/// The slots of each parameter, and its `step`.
std::map<std::string, double> updates_of(const Job& job) {
  std::map<std::string, double> out;
  for (const auto& group : job.optimizer->state().groups) {
    for (const auto& item : group.parameters) {
      double& updates = out[item.name];
      for (const Parameter& slot : item.slots) {
        if (slot.name == "step") updates = slot.local.item<double>();
      }
    }
  }
  return out;
}

using Updates = std::map<std::string, double>;
using Lines = std::vector<std::string>;

TEST(ChangedStateTest, StateMovesToTheGroupsOfTheRecipe) {
  const auto before = job_with("[]", "[]", "[]");
  const auto after = job_with("[{match: '*.bias', weight_decay: 0}]", "[]", "[]");
  EXPECT_EQ(resumed(*before, *after), Lines());
  EXPECT_EQ(updates_of(*after), (Updates{{"layers.0.bias", 2},
                                         {"layers.0.weight", 2},
                                         {"layers.1.bias", 2},
                                         {"layers.1.weight", 2}}));
  // The same step as without a change, where the groups have the options of the optimizer.
  const auto same = job_with("[{match: '*.bias', weight_decay: 0.01}]", "[]", "[]");
  const auto source = job_with("[]", "[]", "[]");
  EXPECT_EQ(resumed(*source, *same), Lines());
  next_step(*source, 3);
  next_step(*same, 3);
  for (size_t i = 0; i < source->parameters.size(); ++i) {
    EXPECT_TRUE(source->parameters[i].local.equal(same->parameters[i].local)) << i;
  }
}

TEST(ChangedStateTest, FrozenParametersLoseTheirState) {
  const auto before = job_with("[]", "[]", "[ema]");
  const auto after = job_with("[]", "['layers.0.*']", "[ema]");
  EXPECT_EQ(resumed(*before, *after),
            Lines{"the optimizer's state is dropped for 2 parameters: 'layers.0.bias', "
                  "'layers.0.weight'"});
  EXPECT_EQ(updates_of(*after), (Updates{{"layers.1.bias", 2}, {"layers.1.weight", 2}}));
  next_step(*after, 3);
}

TEST(ChangedStateTest, ThawedParametersStartWithoutState) {
  const auto before = job_with("[]", "['layers.0.*', '*.bias']", "[ema]");
  const auto after = job_with("[]", "[layers.0.weight]", "[ema]");
  EXPECT_EQ(resumed(*before, *after),
            Lines{"the optimizer starts without state for 2 parameters: 'layers.0.bias', "
                  "'layers.1.bias'"});
  next_step(*after, 3);
  EXPECT_EQ(updates_of(*after),
            (Updates{{"layers.0.bias", 1}, {"layers.1.bias", 1}, {"layers.1.weight", 3}}));
}

TEST(ChangedStateTest, AtMostThreeParametersAreNamed) {
  const auto job = [](const std::string& freeze) {
    return job_with("[]", freeze, "[]", "schedule_free_adamw", "[8, 8]");
  };
  EXPECT_EQ(resumed(*job("[]"), *job("[layers.0.weight, '*.bias']")),
            Lines{"the optimizer's state is dropped for 4 parameters: 'layers.0.bias', "
                  "'layers.0.weight', 'layers.1.bias', ..."});
  EXPECT_EQ(resumed(*job("[layers.0.weight]"), *job("[]")),
            Lines{"the optimizer starts without state for 1 parameter: 'layers.0.weight'"});
}

TEST(ChangedStateTest, AnAddedAverageBeginsWithTheCheckpointsWeights) {
  const auto before = job_with("[]", "[]", "[]");
  const auto after = job_with("[]", "[]", "[ema, {type: ema, decay: 0.5}]");
  EXPECT_EQ(resumed(*before, *after), (Lines{"the callback 'ema' starts without state",
                                             "the callback 'ema' starts without state"}));
  StateDict average;
  after->callbacks[1]->save(average);
  EXPECT_EQ(average.numbers.at("updates"), 0);
  for (const Parameter& item : before->parameters) {
    EXPECT_TRUE(average.tensors.at(item.name).equal(item.local)) << item.name;
  }
}

}  // namespace
}  // namespace accel::changed_state_test
