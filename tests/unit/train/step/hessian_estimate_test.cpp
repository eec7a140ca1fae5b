// Steps of an optimizer that estimates the Hessian.
#include "train/optim/hessian_estimate.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <limits>
#include <map>
#include <mutex>

#include "core/base/error.h"
#include "models/layers/sampled_labels.h"
#include "tests/unit/parallel/ranks.h"
#include "tests/unit/train/job/make_job.h"
#include "train/job/torch_setup.h"
#include "train/loop/run_state.h"
#include "train/step/device_batches.h"
#include "train/step/train_step.h"

namespace accel::hessian_estimate_test {
namespace {

constexpr auto kGlyphs =
    "model: {type: mlp, hidden_sizes: [16, 16, 16]}\n"
    "data: {train: {type: synthetic/glyphs, length: 44}, loader: {workers: 0}}\n";
constexpr auto kSums =
    "model: {type: gpt, num_layers: 1, num_heads: 2, hidden_size: 8, dropout: 0.2}\n"
    "data: {train: {type: synthetic/addition, length: 44}, loader: {workers: 0}}\n";

std::string recipe(const std::string& data, const std::string& optimizer,
                   const std::string& train = "micro_batch: 8") {
  return data + "optimizer: " + optimizer + "\ntrain: {until: 20 steps, batch: 16, " + train +
         "}\n";
}

std::string sophia(int64_t interval, const std::string& more = "") {
  return "{type: sophia, lr: 0.01, hessian_interval: " + std::to_string(interval) + more + "}";
}

StepResult next_step(Job& job, int64_t step) {
  Stopwatch watch;
  job.optimizer->set_lrs(job.optimizer->base_lrs());
  return train_step(job, job.train_loader->next(), {.step = step}, watch);
}

/// A slot of all parameters' state, copied.
std::map<std::string, at::Tensor> slots_of(const Job& job, const std::string& slot) {
  std::map<std::string, at::Tensor> out;
  for (const OptimizerState::Group& group : job.optimizer->state().groups) {
    for (const OptimizerState::ParameterState& parameter : group.parameters) {
      for (const Parameter& item : parameter.slots) {
        if (item.name != slot) continue;
        const Parameter part = {parameter.name, item.local, item.global, item.placements};
        out[parameter.name] = gather_whole(part, job.mesh).clone();
      }
    }
  }
  return out;
}

std::map<std::string, at::Tensor> weights_of(const Job& job) {
  std::map<std::string, at::Tensor> out;
  for (const Parameter& item : job.parameters) {
    out[item.name] = gather_whole(item, job.mesh).detach().clone();
  }
  return out;
}

void expect_near(const std::map<std::string, at::Tensor>& found,
                 const std::map<std::string, at::Tensor>& wanted, double tolerance) {
  ASSERT_EQ(found.size(), wanted.size());
  for (const auto& [name, tensor] : wanted) {
    const double most = tensor.abs().max().item().toDouble();
    EXPECT_LE(found.at(name).sub(tensor).abs().max().item().toDouble(), tolerance * most) << name;
  }
}

TEST(HessianEstimateTest, IsTheNumberOfLabelsTimesTheSquaredGradient) {
  const auto job = make_job(recipe(kGlyphs, sophia(10, ", betas: [0.9, 0.75]"), "micro_batch: 16"));
  const GlobalBatch global_batch = job->train_loader->next();
  const Batch batch = to_batch(global_batch.micro_batches[0]);
  const LabelDraws draws(static_cast<uint64_t>(job->recipe.seed), 1, batch.ids);
  dynamic_cast<const SamplesLabels&>(*job->task).sampled_loss(*job->model, batch, draws).backward();
  std::map<std::string, at::Tensor> wanted;
  for (const Parameter& item : job->parameters) {
    wanted[item.name] = item.local.grad().square().mul(0.25 * 16);
  }
  job->optimizer->zero_grad();
  Stopwatch watch;
  job->optimizer->set_lrs(job->optimizer->base_lrs());
  train_step(*job, global_batch, {.step = 1}, watch);
  expect_near(slots_of(*job, "hessian"), wanted, 1e-6);
}

TEST(HessianEstimateTest, IsMadeInTheFirstStepOfEachInterval) {
  const auto job = make_job(recipe(kGlyphs, sophia(3)));
  std::map<std::string, at::Tensor> before;
  std::vector<int64_t> changed;
  for (int64_t step = 1; step <= 8; ++step) {
    next_step(*job, step);
    const std::map<std::string, at::Tensor> now = slots_of(*job, "hessian");
    if (before.empty() || !at::equal(before.begin()->second, now.begin()->second)) {
      changed.push_back(step);
    }
    before = now;
  }
  EXPECT_EQ(changed, (std::vector<int64_t>{1, 4, 7}));
}

TEST(HessianEstimateTest, MicroBatchesEqualOneBigBatchTheShortTailIncluded) {
  // 44 samples: the third step has 12, of which the last micro-batch has 4.
  const auto whole = make_job(recipe(kGlyphs, sophia(2), "micro_batch: 16"));
  const auto parts = make_job(recipe(kGlyphs, sophia(2), "micro_batch: 8"));
  for (int64_t step = 1; step <= 3; ++step) {
    EXPECT_NEAR(next_step(*whole, step).loss, next_step(*parts, step).loss, 1e-6);
  }
  expect_near(slots_of(*parts, "hessian"), slots_of(*whole, "hessian"), 1e-4);
}

TEST(HessianEstimateTest, LeavesRandomStateAndGradientsOfTheUpdate) {
  const auto with = make_job(recipe(kSums, sophia(1)));
  const StepResult found = next_step(*with, 1);
  const at::Tensor random = generator_state();
  const auto without = make_job(recipe(kSums, "{type: lion, lr: 0.01}"));
  const StepResult wanted = next_step(*without, 1);
  EXPECT_EQ(found.loss, wanted.loss);
  EXPECT_EQ(found.grad_norm, wanted.grad_norm);
  EXPECT_TRUE(at::equal(random, generator_state()));
}

TEST(HessianEstimateTest, AResumedRunHasTheSameBits) {
  constexpr int64_t kSteps = 8, kInterval = 3;
  const std::string text = recipe(kSums, sophia(kInterval));
  for (const int64_t stop : {2, 3, 4}) {
    const auto straight = make_job(text);
    for (int64_t step = 1; step <= stop; ++step) next_step(*straight, step);
    RunState run;
    run.progress.step = run.updates = stop;
    run.progress.epoch = stop / straight->train_loader->steps_per_epoch();
    run.progress.step_in_epoch = stop % straight->train_loader->steps_per_epoch();
    TrainState state = capture(*straight, run, {});
    for (Parameter& item : state.model) item.local = item.local.detach().clone();
    for (OptimizerState::Group& group : state.optimizer.groups) {
      for (OptimizerState::ParameterState& parameter : group.parameters) {
        for (Parameter& slot : parameter.slots) slot.local = slot.local.clone();
      }
    }
    const at::Tensor random = generator_state();
    for (int64_t step = stop + 1; step <= kSteps; ++step) next_step(*straight, step);
    const auto resumed = make_job(text);
    restore(*resumed, state);
    set_generator_state(random);
    for (int64_t step = stop + 1; step <= kSteps; ++step) next_step(*resumed, step);
    expect_near(weights_of(*resumed), weights_of(*straight), 0);
    expect_near(slots_of(*resumed, "hessian"), slots_of(*straight, "hessian"), 0);
  }
}

TEST(HessianEstimateTest, RanksEstimateAsOneProcess) {
  const std::string alone = recipe(kGlyphs, sophia(2), "micro_batch: 4");
  const auto wanted = make_job(alone);
  for (int64_t step = 1; step <= 4; ++step) next_step(*wanted, step);
  const auto expected = slots_of(*wanted, "hessian");
  for (const int64_t stage : {0, 3}) {
    const MeshSizes sizes = stage > 0 ? MeshSizes{.shard = 2} : MeshSizes{.replicate = 2};
    std::mutex building;
    on_ranks(2, [&](Communicator& group) {
      World world;
      world.mesh = make_mesh({std::shared_ptr<Communicator>(), &group}, sizes);
      world.inputs_are_same = true;
      std::unique_ptr<Job> job;
      {
        const std::lock_guard lock(building);
        job = make_job(alone + "accelerator: {num_cpu_threads_per_process: 1, fsdp: {stage: " +
                           std::to_string(stage) + "}}\n",
                       world);
      }
      group.barrier("all are built");
      for (int64_t step = 1; step <= 4; ++step) next_step(*job, step);
      const auto found = slots_of(*job, "hessian");
      const std::lock_guard lock(building);
      SCOPED_TRACE("stage " + std::to_string(stage));
      expect_near(found, expected, 1e-4);
    });
  }
}

TEST(HessianEstimateTest, AGradientThatIsNotFiniteStopsTheRun) {
  const auto job = make_job(recipe(kGlyphs, sophia(1), "micro_batch: 16"));
  const auto before = weights_of(*job);
  const GlobalBatch global_batch = job->train_loader->next();
  to_batch(global_batch.micro_batches[0]).inputs.fill_(std::numeric_limits<double>::quiet_NaN());
  Stopwatch watch;
  try {
    train_step(*job, global_batch, {.step = 7}, watch);
    FAIL();
  } catch (const DivergedError& error) {
    EXPECT_STREQ(error.what(),
                 "step 7: the gradient of 'layers.0.weight' is not finite; the weights are those "
                 "of the step before");
  }
  expect_near(weights_of(*job), before, 0);
}

std::string refusal(const std::string& text) {
  try {
    make_job(text);
  } catch (const RecipeError& error) {
    const Diagnostic& first = error.diagnostics().front();
    return first.message + "; " + first.hint;
  }
  return "";
}

TEST(HessianEstimateTest, TasksWithoutSampledLabelsAreRefused) {
  EXPECT_EQ(refusal(recipe("model: {type: mlp, hidden_sizes: [8]}\n"
                           "data: {train: {type: synthetic/regression, length: 44}}\n",
                           sophia(1))),
            "the optimizer 'sophia' needs labels sampled from the model's logits, which the task "
            "'regression' does not have; use adamw; the tasks causal_lm, masked_lm, classification "
            "and token_classification have such labels");
}

TEST(HessianEstimateTest, WhatWouldNotEstimateIsRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {"accelerator: {mixed_precision: fp16}\n", "'mixed_precision: fp16'"},
      {"accelerator: {mixed_precision: fp8}\n", "'mixed_precision: fp8'"},
      {"task: {type: classification, class_weights: [1, 1, 1, 1, 1, 1, 1, 1, 1, 2]}\n",
       "'class_weights' of the task 'classification'"},
  };
  for (const auto& [more, what] : cases) {
    EXPECT_EQ(refusal(recipe(kGlyphs, sophia(1)) + more),
              std::string("the optimizer 'sophia' estimates the Hessian, which is not supported "
                          "with ") +
                  what + "; leave " + what + " out, or use adamw");
  }
}

}  // namespace
}  // namespace accel::hessian_estimate_test
