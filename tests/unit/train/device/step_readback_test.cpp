// Loss and gradient norm of steps on a device, which the host reads a step later.
#include "train/step/step_readback.h"

#include <ATen/ops/ones_like.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "bench/between_steps.h"
#include "core/base/error.h"
#include "tests/host_device/host_device.h"
#include "tests/unit/data/array_files.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/train/device/device_run.h"
#include "train/job/build_optimizers.h"
#include "train/job/torch_setup.h"
#include "train/step/device_batches.h"
#include "train/step/train_step.h"

namespace accel::step_readback_test {
namespace {

using namespace device_run;

constexpr auto kAdamW = "optimizer: {type: adamw, lr: 0.01}\n";
constexpr auto kScheduleFree =
    "optimizer: {type: schedule_free_adamw, lr: 0.01, weight_decay: 0.1, warmup_steps: 3}\n";
constexpr auto kMlp = "model: {type: mlp, hidden_sizes: [8]}\n";
constexpr auto kGpt = "model: {type: gpt, num_layers: 1, num_heads: 2, hidden_size: 16}\n";
constexpr auto kGlyphs =
    "data: {train: {type: synthetic/glyphs, length: 64}, eval: {type: synthetic/glyphs, length: "
    "20}, loader: {workers: 0}}\n";
constexpr auto kSums =
    "data: {train: {type: synthetic/addition, length: 64}, loader: {workers: 0}}\n";

struct WaitsCase {
  const char* name;
  std::string text;
  double waits;  ///< of a step
};

void PrintTo(const WaitsCase& c, std::ostream* out) {
  *out << c.name;
}

class StepWaitsTest : public testing::TestWithParam<WaitsCase> {};

INSTANTIATE_TEST_SUITE_P(
    Jobs, StepWaitsTest,
    testing::Values(
        WaitsCase{"mlp", std::string(kMlp) + kAdamW + kGlyphs, 0},
        WaitsCase{"resnet_bf16",
                  "model: {type: resnet, depth: 18, stem: cifar, embedding_size: 4}\n" +
                      std::string(kAdamW) + kGlyphs + "accelerator: {mixed_precision: bf16}\n",
                  0},
        WaitsCase{"gpt", std::string(kGpt) + kAdamW + kSums, 0},
        WaitsCase{"amsgrad",
                  std::string(kMlp) + "optimizer: {type: adam, amsgrad: true}\n" + kGlyphs, 0},
        WaitsCase{"sgd", std::string(kMlp) + "optimizer: {type: sgd, lr: 0.1}\n" + kGlyphs, 0},
        WaitsCase{"momentum",
                  std::string(kMlp) +
                      "optimizer: {type: sgd, lr: 0.1, momentum: 0.9, nesterov: true}\n" + kGlyphs,
                  0},
        WaitsCase{"adagrad", std::string(kMlp) + "optimizer: {type: adagrad}\n" + kGlyphs, 0},
        WaitsCase{"lion", std::string(kMlp) + "optimizer: {type: lion}\n" + kGlyphs, 0},
        WaitsCase{"rmsprop", std::string(kMlp) + "optimizer: {type: rmsprop}\n" + kGlyphs, 0},
        WaitsCase{"adafactor", std::string(kMlp) + "optimizer: {type: adafactor}\n" + kGlyphs, 0},
        WaitsCase{"muon", std::string(kMlp) + "optimizer: {type: muon}\n" + kGlyphs, 0},
        WaitsCase{"lamb", std::string(kMlp) + "optimizer: {type: lamb}\n" + kGlyphs, 0},
        WaitsCase{"adamw_8bit",
                  std::string(kMlp) + "optimizer: {type: adamw_8bit, min_8bit_size: 8}\n" + kGlyphs,
                  0},
        WaitsCase{"sophia",
                  std::string(kMlp) + "optimizer: {type: sophia, hessian_interval: 50}\n" + kGlyphs,
                  0},
        WaitsCase{"schedule_free", std::string(kMlp) + kScheduleFree + kGlyphs, 0},
        WaitsCase{"unfused",
                  std::string(kMlp) + "optimizer: {type: adamw, fused: false}\n" + kGlyphs, 0},
        WaitsCase{"galore", std::string(kMlp) + "optimizer: {type: galore_adamw}\n" + kGlyphs, 2}),
    [](const auto& info) { return std::string(info.param.name); });

/// Neither log nor save is due.
TEST_P(StepWaitsTest, ASteadyStepWaitsForWhatTheDeviceCannotCheck) {
  const TempFolder folder;
  const auto job = job_on(host_device(1), GetParam().text +
                                              "train: {until: 40 steps, batch: 8, micro_batch: 4, "
                                              "max_grad_norm: 0.5}\n" +
                                              kNothingIsDue);
  EXPECT_EQ(waits_of_a_step(*job, folder.path("run")), GetParam().waits);
}

const std::string kRest = std::string(kGlyphs) +
                          "train: {until: 12 steps, batch: 8, micro_batch: 4, max_grad_norm: 0.5}\n"
                          "scheduler: {type: cosine, warmup: 2 steps}\n"
                          "log: {every: 5 steps, system: false}\neval: {every: 3 steps}\n"
                          "checkpoint: {every: 4 steps, async: false}\n";

struct OptimizerCase {
  const char* name;
  const char* text;
  double tolerance = 0;  ///< of losses, for fused kernels that round otherwise
};

void PrintTo(const OptimizerCase& c, std::ostream* out) {
  *out << c.name;
}

/// Of optimizers that skip updates.
class SkippedUpdatesTest : public testing::TestWithParam<OptimizerCase> {};

INSTANTIATE_TEST_SUITE_P(
    Optimizers, SkippedUpdatesTest,
    testing::Values(
        OptimizerCase{"adamw", kAdamW},
        OptimizerCase{"sgd", "optimizer: {type: sgd, lr: 0.1, weight_decay: 0.1}\n", 1e-6},
        OptimizerCase{"momentum",
                      "optimizer: {type: sgd, lr: 0.1, momentum: 0.9, dampening: 0.1}\n", 1e-6},
        OptimizerCase{"nesterov",
                      "optimizer: {type: sgd, lr: 0.1, momentum: 0.9, nesterov: true}\n", 1e-6},
        OptimizerCase{"adagrad", "optimizer: {type: adagrad, lr: 0.1}\n"},
        OptimizerCase{"lion", "optimizer: {type: lion, lr: 0.001, weight_decay: 0.1}\n"},
        OptimizerCase{"rmsprop", "optimizer: {type: rmsprop, momentum: 0.9, centered: true}\n"},
        OptimizerCase{"muon", "optimizer: {type: muon, adamw: {fused: false}}\n"},
        OptimizerCase{"lamb", "optimizer: {type: lamb, lr: 0.01}\n"},
        OptimizerCase{"lamb_clipped",
                      "optimizer: {type: lamb, lr: 0.01, weight_decay: 0, bias_correction: false, "
                      "trust_clip: true, always_adapt: true}\n"},
        OptimizerCase{"adafactor", "optimizer: {type: adafactor, weight_decay: 0.1}\n"},
        OptimizerCase{"adamw_8bit", "optimizer: {type: adamw_8bit, lr: 0.01, min_8bit_size: 9}\n"},
        OptimizerCase{"sophia", "optimizer: {type: sophia, lr: 0.01, hessian_interval: 3}\n"},
        OptimizerCase{"schedule_free", kScheduleFree},
        OptimizerCase{"unfused",
                      "optimizer: {type: adam, lr: 0.01, weight_decay: 0.1, amsgrad: true, fused: "
                      "false}\n"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(SkippedUpdatesTest, ARunHasTheRecordAndTheWeightsOfTheCpu) {
  const TempFolder folder;
  const std::string recipe = std::string(kMlp) + GetParam().text + kRest;
  const Ran here = run(*job_on(at::kCPU, recipe), folder.path("here"));
  EXPECT_EQ(here.lines.size(), 1U + 12 + 3 + 4 + 3 + 1) << testing::PrintToString(here.lines);
  expect_near(run(*job_on(host_device(1), recipe), folder.path("there")), here,
              GetParam().tolerance);
}

TEST_P(SkippedUpdatesTest, AResumedRunHasTheBitsOfAStraightOne) {
  const TempFolder folder;
  const std::string recipe = std::string(kMlp) + GetParam().text + kRest;
  const Ran straight = run(*job_on(host_device(1), recipe), folder.path("straight"));
  for (const int64_t step : {3, 7}) {
    run(*job_on(host_device(1), recipe), folder.path("parts"), step);
  }
  const Ran resumed = run(*job_on(host_device(1), recipe), folder.path("parts"));
  std::vector<std::string> steps, wanted;
  for (const std::string& line : resumed.lines) {
    if (line.find("\"event\":") == line.npos) steps.push_back(line);
  }
  for (const std::string& line : straight.lines) {
    if (line.find("\"event\":") == line.npos) wanted.push_back(line);
  }
  EXPECT_EQ(steps, wanted);
  for (size_t i = 0; i < straight.weights.size(); ++i) {
    EXPECT_TRUE(resumed.weights[i].equal(straight.weights[i])) << i;
  }
}

/// Samples of six numbers, in order; those of step `bad`, four a step, are `value`.
std::string arrays(const TempFolder& folder, int64_t bad, float value,
                   const char* optimizer = kAdamW) {
  std::vector<float> numbers(64 * 6);
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = static_cast<int64_t>(i / 24) == bad - 1 ? value : static_cast<float>(i % 7) / 7;
  }
  folder.write("x.npy", npy_file<float>("<f4", "(64, 6)", numbers));
  folder.write("y.npy", npy_file<int64_t>("<i8", "(64,)", std::vector<int64_t>(64, 1)));
  return std::string(kMlp) + optimizer +
         "data: {train: {type: npy, inputs: " + folder.path("x.npy") +
         ", targets: " + folder.path("y.npy") +
         "}, loader: {workers: 0, shuffle: false}}\ntrain: {until: 9 steps, batch: 4}\n"
         "checkpoint: {every: never}\nlog: {system: false, every: ";
}

/// The run of a job on a device and on the CPU, in whose step 5 the numbers are not finite;
/// `change` is called behind step 4.
void expect_divergence(
    const std::function<std::string(const TempFolder&)>& text, const std::string& error,
    const std::function<void(Job&)>& change = [](Job&) {}) {
  for (const std::string every : {"never}\n", "1 steps}\n", "4 steps}\n"}) {
    const TempFolder folder;
    const std::string recipe = text(folder) + every;
    const auto ran_on = [&](at::Device device, std::optional<int64_t> stop_after) {
      const auto job = job_on(device, recipe);
      between_steps(
          *job, 4, 4, [&] { change(*job); }, [] {});
      return run(*job,
                 folder.path(stop_after        ? "before"
                             : device.is_cpu() ? "here"
                                               : "there"),
                 stop_after);
    };
    const Ran here = ran_on(at::kCPU, std::nullopt), there = ran_on(host_device(1), std::nullopt);
    EXPECT_EQ(there.error, error);
    expect_same(there, here);
    const Ran before = ran_on(host_device(1), 4);
    for (size_t i = 0; i < before.weights.size(); ++i) {
      EXPECT_TRUE(there.weights[i].equal(before.weights[i])) << i;
    }
  }
}

TEST_P(SkippedUpdatesTest, ANanEndsTheRunWithTheWeightsOfTheStepBefore) {
  const auto recipe = [](const TempFolder& folder) {
    return arrays(folder, 5, std::nanf(""), GetParam().text);
  };
  expect_divergence(recipe, "step 5: the loss is nan; the weights are those of the step before");
}

TEST(StepReadbackTest, TheGradientThatOverflowedIsNamed) {
  expect_divergence([](const TempFolder& folder) { return arrays(folder, 5, 1e25F); },
                    "step 5: the gradient of 'layers.0.weight' is not finite; the weights are "
                    "those of the step before",
                    [](Job& job) {
                      job.parameters[0].local.detach().mul_(1e-30);
                      job.parameters[2].local.detach().mul_(-1e30);
                    });
}

TEST(StepReadbackTest, ANormThatOverflowedIsNamed) {
  expect_divergence([](const TempFolder& folder) { return arrays(folder, 20, 0); },
                    "step 5: the norm of the gradients is not finite; the weights are those of the "
                    "step before",
                    [](Job& job) {
                      job.parameters[0].local.detach().mul_(1e-30);
                      job.parameters[2].local.detach().mul_(-1e25);
                    });
}

TEST(StepReadbackTest, AnErrorBehindAStepLeavesItsLine) {
  const auto failing_on = [](at::Device device, int64_t bad) {
    const TempFolder folder;
    const auto job = job_on(device, arrays(folder, bad, std::nanf("")) + "never}\n");
    between_steps(
        *job, 5, 9, [] { throw std::runtime_error("a callback fails"); }, [] {});
    return run(*job, folder.path("run"));
  };
  const Ran here = failing_on(at::kCPU, 20);
  EXPECT_EQ(here.error, "a callback fails");
  EXPECT_EQ(here.lines.size(), 1U + 5 + 1);
  expect_same(failing_on(host_device(1), 20), here);
  // The step whose callback fails has diverged.
  expect_same(failing_on(host_device(1), 5), failing_on(at::kCPU, 5));
}

/// What an optimizer counts on the host.
std::vector<std::pair<std::string, HyperValue>> counts_of(const Job& job) {
  std::vector<std::pair<std::string, HyperValue>> counts;
  for (const OptimizerState::Group& group : job.optimizer->state().groups) {
    counts.insert(counts.end(), group.hyper.begin(), group.hyper.end());
  }
  return counts;
}

/// Of parameters and optimizer.
std::vector<at::Tensor> state_of(const Job& job) {
  std::vector<at::Tensor> state;
  for (const Parameter& item : job.parameters) state.push_back(item.local.detach().cpu().clone());
  for (const OptimizerState::Group& group : job.optimizer->state().groups) {
    for (const OptimizerState::ParameterState& of : group.parameters) {
      for (const Parameter& slot : of.slots) state.push_back(slot.local.cpu().clone());
    }
  }
  return state;
}

TEST_P(SkippedUpdatesTest, StepsAfterABadOneChangeNothing) {
  const auto job =
      job_on(host_device(1), std::string("model: {type: mlp, hidden_sizes: [8], dropout: 0.5}\n") +
                                 GetParam().text + kGlyphs + "train: {until: 9 steps, batch: 4}\n");
  const auto readback = StepReadback::make(*job);
  ASSERT_NE(readback, nullptr);
  Stopwatch watch;
  const auto step = [&](int64_t number, const GlobalBatch& batch) {
    job->optimizer->set_lrs(job->optimizer->base_lrs());
    const StepResult result =
        train_step(*job, batch, {.step = number, .readback = readback.get()}, watch);
    EXPECT_TRUE(result.pending);
    EXPECT_TRUE(std::isnan(result.loss));
  };
  step(1, job->train_loader->next());
  step(2, job->train_loader->next());
  EXPECT_TRUE(std::isfinite(readback->read().loss));
  EXPECT_TRUE(std::isfinite(readback->read().grad_norm));
  const std::vector<at::Tensor> before = state_of(*job);
  const auto counts_before = counts_of(*job);
  const GlobalBatch bad = job->train_loader->next();
  to_batch(bad.micro_batches[0]).inputs.fill_(std::numeric_limits<double>::quiet_NaN());
  step(3, bad);
  const at::Tensor random = device_generator_state(host_device(1)).clone();
  step(4, job->train_loader->next());
  EXPECT_TRUE(std::isnan(readback->read().loss));
  ASSERT_NE(readback->diverged(), nullptr);
  EXPECT_FALSE(device_generator_state(host_device(1)).equal(random));
  EXPECT_THROW(step(3, bad), DivergedError);
  EXPECT_TRUE(device_generator_state(host_device(1)).equal(random)) << "the same dropout";
  const std::vector<at::Tensor> after = state_of(*job);
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(after[i].equal(before[i])) << i;
  EXPECT_EQ(counts_of(*job), counts_before);
}

/// As `ctl` replaces it when an option changes.
TEST_P(SkippedUpdatesTest, ARebuiltOptimizerSkipsUpdatesToo) {
  const auto job = job_on(host_device(1), std::string(kMlp) + GetParam().text + kGlyphs +
                                              "train: {until: 9 steps, batch: 4}\n");
  auto readback = StepReadback::make(*job);
  ASSERT_NE(readback, nullptr);
  Stopwatch watch;
  const auto step = [&](int64_t number, const GlobalBatch& batch) {
    train_step(*job, batch, {.step = number, .readback = readback.get()}, watch);
  };
  step(1, job->train_loader->next());
  EXPECT_TRUE(std::isfinite(readback->read().loss));
  rebuild_optimizer(*job);
  const std::vector<at::Tensor> before = state_of(*job);
  const GlobalBatch bad = job->train_loader->next();
  to_batch(bad.micro_batches[0]).inputs.fill_(std::numeric_limits<double>::quiet_NaN());
  step(2, bad);
  const std::vector<at::Tensor> after = state_of(*job);
  ASSERT_EQ(after.size(), before.size());
  for (size_t i = 0; i < before.size(); ++i) EXPECT_TRUE(after[i].equal(before[i])) << i;
  readback.reset();
}

/// As a CUDA graph could record it.
TEST_P(SkippedUpdatesTest, AnUpdateReadsNothingOfTheDevice) {
  const auto job = job_on(host_device(1), std::string(kMlp) + GetParam().text + kGlyphs +
                                              "train: {until: 9 steps, batch: 4}\n");
  const auto readback = StepReadback::make(*job);
  ASSERT_NE(readback, nullptr);
  const at::Tensor weight = job->parameters[0].local.detach();
  for (const bool is_recorded : {false, true}) {
    for (const Parameter& item : job->parameters) {
      item.local.mutable_grad() = at::ones_like(item.local).mul_(0.1);
    }
    const at::Tensor before = weight.clone();
    std::optional<RecordingScope> recording;
    if (is_recorded) recording.emplace();
    EXPECT_NO_THROW(job->optimizers.front().optimizer->step());
    recording.reset();
    EXPECT_FALSE(weight.equal(before));
  }
}

TEST(StepReadbackTest, OtherJobsReadTheNumbersInTheStep) {
  const auto reads_later = [](at::Device device, const std::string& model, const std::string& more,
                              const std::string& train = "") {
    const auto job =
        job_on(device, model + kGlyphs + "train: {until: 9 steps, batch: 4" + train + "}\n" + more);
    return StepReadback::make(*job) != nullptr;
  };
  const std::string mlp = kMlp;
  EXPECT_TRUE(reads_later(host_device(1), mlp, kAdamW));
  EXPECT_FALSE(reads_later(at::kCPU, mlp, kAdamW));
  const std::string adam = std::string(kAdamW) + "accelerator: ";
  EXPECT_TRUE(reads_later(host_device(1), mlp, adam + "{mixed_precision: bf16}\n"));
  EXPECT_FALSE(reads_later(host_device(1), mlp, adam + "{mixed_precision: fp16}\n"));
  EXPECT_FALSE(
      reads_later(host_device(1), mlp, adam + "{reduction: canonical}\n", ", micro_batch: 2"));
  EXPECT_TRUE(reads_later(host_device(1), mlp, "optimizer: {type: sgd, lr: 0.1}\n"));
  EXPECT_TRUE(reads_later(host_device(1), mlp, "optimizer: {type: adamw, fused: false}\n"));
  EXPECT_FALSE(reads_later(host_device(1), mlp, "optimizer: {type: galore_adamw}\n"));
  EXPECT_FALSE(
      reads_later(host_device(1),
                  "model: {type: dcgan_generator, features: 4, latent: 8}\n"
                  "task: {type: gan, discriminator: {type: dcgan_discriminator, features: 4}, "
                  "discriminator_optimizer: {type: adam, lr: 0.001}}\n",
                  kAdamW));
}

}  // namespace
}  // namespace accel::step_readback_test
