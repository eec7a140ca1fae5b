// Training with state in a scratch file has the bits of training in memory.
#include <ATen/ops/equal.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/job/make_job.h"
#include "train/job/build_fsdp.h"
#include "train/job/torch_setup.h"
#include "train/loop/evaluate.h"
#include "train/loop/run_state.h"
#include "train/step/train_step.h"

namespace accel::offload_test {
namespace {

constexpr auto kModel =
    "model: {type: gpt, num_layers: 3, num_heads: 2, hidden_size: 16}\n"
    "data: {train: {type: synthetic/addition, length: 64}, eval: {type: synthetic/addition, "
    "length: 20}, loader: {workers: 0}}\n";

/// The losses and gradient norms of steps `first` to `last`.
std::vector<double> train(Job& job, int64_t first, int64_t last) {
  std::vector<double> numbers;
  Stopwatch watch;
  for (int64_t step = first; step <= last; ++step) {
    job.optimizer->set_lrs(job.optimizer->base_lrs());
    const StepResult result = train_step(job, job.train_loader->next(), {.step = step}, watch);
    for (const auto& callback : job.callbacks) callback->on_step(step);
    numbers.push_back(result.loss);
    numbers.push_back(result.grad_norm);
  }
  return numbers;
}

at::Tensor content(const Job& job, const at::Tensor& tensor) {
  return (job.swapper ? job.swapper->read(tensor) : tensor).detach();
}

TrainState state_of(const Job& job, int64_t step) {
  RunState run;
  run.updates = step;
  run.progress.step = step;
  run.progress.step_in_epoch = step;
  TrainState state = capture(job, run, {});
  for (Parameter& item : state.model) item.local = content(job, item.local).clone();
  for (OptimizerState::Group& group : state.optimizer.groups) {
    for (OptimizerState::ParameterState& parameter : group.parameters) {
      for (Parameter& slot : parameter.slots) slot.local = content(job, slot.local).clone();
    }
  }
  for (auto& [name, section] : state.sections) {
    for (auto& [key, tensor] : section.tensors) tensor = content(job, tensor).clone();
  }
  return state;
}

void expect_equal(const TrainState& a, const TrainState& b) {
  ASSERT_EQ(a.model.size(), b.model.size());
  for (size_t i = 0; i < a.model.size(); ++i) {
    EXPECT_TRUE(at::equal(a.model[i].local, b.model[i].local)) << a.model[i].name;
  }
  ASSERT_EQ(a.optimizer.groups.size(), b.optimizer.groups.size());
  for (size_t g = 0; g < a.optimizer.groups.size(); ++g) {
    const auto &left = a.optimizer.groups[g].parameters, &right = b.optimizer.groups[g].parameters;
    ASSERT_EQ(left.size(), right.size());
    for (size_t i = 0; i < left.size(); ++i) {
      ASSERT_EQ(left[i].slots.size(), right[i].slots.size()) << left[i].name;
      for (size_t s = 0; s < left[i].slots.size(); ++s) {
        EXPECT_TRUE(at::equal(left[i].slots[s].local, right[i].slots[s].local)) << left[i].name;
      }
    }
  }
  for (const auto& [name, section] : a.sections) {
    for (const auto& [key, tensor] : section.tensors) {
      EXPECT_TRUE(at::equal(tensor, b.sections.at(name).tensors.at(key))) << name << " " << key;
    }
  }
}

struct OffloadCase {
  const char* name;
  const char* text;
  const char* accelerator;
};

class OffloadTest : public testing::TestWithParam<OffloadCase> {
 protected:
  std::unique_ptr<Job> job(const std::string& offload) const {
    return make_job(std::string(kModel) + GetParam().text + "accelerator: {" +
                    GetParam().accelerator + offload + "}}\n");
  }
  std::string on_disk() const { return ", offload: disk, offload_path: " + folder_.path(); }

 private:
  TempFolder folder_;
};

constexpr auto kClipped = "train: {until: 9 steps, batch: 8, micro_batch: 4, max_grad_norm: 0.5}\n";

INSTANTIATE_TEST_SUITE_P(
    Jobs, OffloadTest,
    testing::Values(
        OffloadCase{"adamw_clip_ema_groups",
                    "optimizer: {type: adamw, lr: 0.01, groups: [{match: '*.bias', "
                    "weight_decay: 0}]}\ncallbacks: [{type: ema, decay: 0.9}]\n"
                    "train: {until: 9 steps, batch: 8, micro_batch: 4, max_grad_norm: 0.5}\n",
                    "fsdp: {stage: 3"},
        OffloadCase{"momentum_one_reduction",
                    "optimizer: {type: sgd, lr: 0.05, momentum: 0.9}\n"
                    "train: {until: 9 steps, batch: 8, micro_batch: 2}\n",
                    "fsdp: {stage: 2, sync_each_batch: false"},
        OffloadCase{"plain_sgd_limit",
                    "optimizer: {type: sgd, lr: 0.05}\n"
                    "train: {until: 9 steps, batch: 8, max_grad_value: 0.01}\n",
                    "fsdp: {stage: 3, reshard_after_forward: false"},
        OffloadCase{"lion_bf16",
                    "optimizer: {type: lion, lr: 0.001}\n"
                    "train: {until: 9 steps, batch: 8, micro_batch: 4, "
                    "activation_checkpointing: blocks}\n",
                    "mixed_precision: bf16, fsdp: {stage: 3"},
        OffloadCase{"sophia",
                    "optimizer: {type: sophia, lr: 0.001, hessian_interval: 2}\n"
                    "train: {until: 9 steps, batch: 8, micro_batch: 4}\n",
                    "fsdp: {stage: 3"},
        OffloadCase{"rmsprop_stage_1",
                    "optimizer: {type: rmsprop, lr: 0.001, momentum: 0.5}\n"
                    "train: {until: 9 steps, batch: 8}\n",
                    "fsdp: {stage: 1, ignored: ['*.bias']"},
        OffloadCase{"adagrad_frozen",
                    "optimizer: {type: adagrad, lr: 0.01, initial_accumulator_value: 0.1}\n"
                    "train: {until: 9 steps, batch: 8, freeze: ['*0*', '*.weight']}\n",
                    "fsdp: {stage: 3"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(OffloadTest, HasTheBitsOfMemory) {
  const auto here = job(""), there = job(on_disk());
  const std::vector<double> wanted = train(*here, 1, 4);
  EXPECT_EQ(train(*there, 1, 4), wanted);
  expect_equal(state_of(*there, 4), state_of(*here, 4));
  for (const Parameter& item : there->parameters) {
    if (item.is_replicated()) continue;
    EXPECT_EQ(item.local.storage().nbytes(), 0U) << item.name << " is in memory";
  }
}

TEST_P(OffloadTest, EvaluatesAndResumesWithTheBitsOfMemory) {
  const auto here = job(""), there = job(on_disk());
  train(*here, 1, 3);
  train(*there, 1, 3);
  const TrainState state = state_of(*there, 3);
  for (Job* each : {here.get(), there.get()}) {
    for (const auto& callback : each->callbacks) callback->before_eval();
    for (const OptimizerBinding& item : each->optimizers) item.strategy->refresh_weights();
  }
  EXPECT_EQ(evaluate(*there)->at("eval/loss"), evaluate(*here)->at("eval/loss"));
  for (Job* each : {here.get(), there.get()}) {
    for (const auto& callback : each->callbacks) callback->after_eval();
    for (const OptimizerBinding& item : each->optimizers) item.strategy->refresh_weights();
  }
  expect_equal(state_of(*there, 3), state);
  const std::vector<double> wanted = train(*here, 4, 6);
  const auto resumed = job(on_disk());
  train(*resumed, 1, 1);
  restore(*resumed, state);
  for (const OptimizerBinding& item : resumed->optimizers) item.strategy->refresh_weights();
  expect_equal(state_of(*resumed, 3), state);
  EXPECT_EQ(train(*resumed, 4, 6), wanted);
  expect_equal(state_of(*resumed, 6), state_of(*here, 6));
}

/// A callback that accesses weights at any time.
struct WeightWatch final : Callback {
  static constexpr auto kName = "weight_watch";
  static constexpr auto kSummary = "Of this test.";
  struct Options {};
  static Schema<Options> schema() { return {}; }
  WeightWatch(const Options&, const CallbackContext&) {}
};
const Register<WeightWatch> weight_watch;

std::string refusal(const std::string& text) {
  try {
    make_job(kModel + text);
  } catch (const RecipeError& error) {
    const Diagnostic& first = error.diagnostics().front();
    return first.message + "; " + first.hint;
  }
  return "";
}

TEST(OffloadRefusalTest, WhatCannotBeIsRefused) {
  const std::string train = "train: {until: 1 steps, batch: 8}\n";
  EXPECT_EQ(refusal(train + "optimizer: {type: muon, lr: 0.01}\n"
                            "accelerator: {fsdp: {stage: 3, offload: disk}}\n"),
            "'offload: disk' does not support the optimizer 'muon', which needs all parameters in "
            "memory; use adamw, adam, sgd, lion, adagrad or rmsprop");
  EXPECT_EQ(refusal(train + "optimizer: {type: sgd, lr: 0.01}\ncallbacks: [weight_watch]\n"
                            "accelerator: {fsdp: {stage: 3, offload: disk}}\n"),
            "'offload: disk' does not support the callback 'weight_watch', which may access "
            "parameters that are on the disk; leave it out, or set 'offload: none'");
  EXPECT_EQ(refusal(train + "optimizer: {type: sgd, lr: 0.01}\n"
                            "accelerator: {fsdp: {stage: 3, offload: cpu, offload_path: /x}}\n"),
            "'offload_path' has no effect without 'offload: disk'; leave it out, or set 'offload: "
            "disk'");
  EXPECT_EQ(refusal(train + "optimizer: {type: sgd, lr: 0.01}\n"
                            "accelerator: {fsdp: {offload: disk}}\n"),
            "the options of 'fsdp' have no effect without 'stage'; add 'stage: 3', or leave 'fsdp' "
            "out");
  EXPECT_EQ(
      refusal(train + "optimizer: {type: sgd, lr: 0.01}\n"
                      "accelerator: {mixed_precision: fp16, fsdp: {stage: 1, offload: disk}}\n"),
      "'offload: disk' does not support fp16: loss scaling reads all gradients once more; train in "
      "bf16");
  EXPECT_EQ(refusal(train + "optimizer: {type: sgd, lr: 0.01}\n"
                            "accelerator: {fsdp: {stage: 1, offload: disk, state_dict: full}}\n"),
            "'offload: disk' does not support 'state_dict: full', which takes the memory of the "
            "whole state; leave 'state_dict' at sharded; 'accel-run checkpoint convert' makes full "
            "checkpoints");
  EXPECT_EQ(refusal("train: {until: 1 steps, batch: 8, micro_batch: 4}\noptimizer: {type: sgd, lr: "
                    "0.01}\naccelerator: {reduction: canonical, fsdp: {stage: 2, offload: "
                    "disk}}\n"),
            "'offload: disk' does not support 'reduction' canonical, which keeps whole gradients "
            "in memory; leave 'reduction' at bucketed");
}

TEST(OffloadSummaryTest, SaysWhereTheStateIs) {
  const std::string rest = "optimizer: {type: sgd, lr: 0.01}\ntrain: {until: 1 steps, batch: 8}\n";
  const TempFolder folder;
  EXPECT_EQ(offload_summary(*make_job(kModel + rest)), "");
  EXPECT_EQ(
      offload_summary(*make_job(kModel + rest + "accelerator: {fsdp: {stage: 3, offload: cpu}}\n")),
      "cpu: no effect, training is on the CPU; 'offload: disk' takes less memory");
  const auto job = make_job(kModel + rest +
                            "accelerator: {fsdp: {stage: 3, offload: disk, "
                            "offload_path: " +
                            folder.path() + "}}\n");
  const std::string text = offload_summary(*job);
  EXPECT_TRUE(text.starts_with("disk: 0.1 MiB per rank in '" + folder.path() + "'")) << text;
  EXPECT_TRUE(text.ends_with("; training waits while a checkpoint is written")) << text;
}

}  // namespace
}  // namespace accel::offload_test
