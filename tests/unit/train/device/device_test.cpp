// Jobs on a device that is not the CPU give the CPU's bits, and resume from checkpoints.
#include "train/job/device.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <gtest/gtest.h>

#include <mutex>

#include "checkpoint/accelerate_files.h"
#include "checkpoint/background_saver.h"
#include "kernels/cpu_operators.h"
#include "models/layers/module_state.h"
#include "models/layers/offloaded_inputs.h"
#include "tests/host_device/host_device.h"
#include "tests/host_device/host_device_backend.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/parallel/ranks.h"
#include "tests/unit/train/job/make_job.h"
#include "train/job/job.h"
#include "train/job/torch_setup.h"
#include "train/loop/evaluate.h"
#include "train/loop/run_state.h"
#include "train/step/train_step.h"

namespace accel::device_test {
namespace {

World on(at::Device device) {
  if (!device.is_cpu()) c10::impl::VirtualGuardImpl(device.type()).setDevice(device);
  World world;
  world.device = device;
  return world;
}

/// The losses and gradient norms of steps `first` to `last`.
std::vector<double> train(Job& job, int64_t first, int64_t last) {
  use_kernels(Kernels::kReference);  // the fused ones are the CPU's alone
  std::vector<double> numbers;
  Stopwatch watch;
  for (int64_t step = first; step <= last; ++step) {
    job.optimizer->set_lrs(job.optimizer->base_lrs());
    const StepResult result = train_step(job, job.train_loader->next(), {.step = step}, watch);
    numbers.push_back(result.loss);
    numbers.push_back(result.grad_norm);
  }
  return numbers;
}

/// As a checkpoint has it: copies on the CPU.
TrainState saved(const Job& job, int64_t step) {
  RunState run;
  run.updates = step;
  run.progress.step = step;
  run.progress.step_in_epoch = step;
  return Snapshot().take(capture(job, run, {}));
}

/// The engine that computes blocks again must be there before the first backward pass.
class EngineFirst final : public testing::Environment {
  void SetUp() override {
    const auto job = make_job(
        "model: {type: gpt, num_layers: 1, num_heads: 1, hidden_size: 4}\n"
        "data: {train: {type: synthetic/addition, length: 8}}\n"
        "train: {batch: 4, activation_checkpointing: blocks}\n",
        on(at::kCPU));
  }
};
const auto* const kEngineFirst = testing::AddGlobalTestEnvironment(new EngineFirst);

struct DeviceCase {
  const char* name;
  const char* text;
  double tolerance = 0;
};

void PrintTo(const DeviceCase& c, std::ostream* out) {
  *out << c.name;
}

constexpr auto kImages =
    "data: {train: {type: synthetic/glyphs, length: 64}, eval: {type: synthetic/glyphs, length: "
    "20}, loader: {workers: 0}}\n"
    "train: {until: 6 steps, batch: 8, micro_batch: 4}\n";
constexpr auto kSums =
    "data: {train: {type: synthetic/addition, length: 64}, eval: {type: synthetic/addition, "
    "length: 20}, loader: {workers: 0}}\n"
    "train: {until: 6 steps, batch: 8, micro_batch: 4, max_grad_norm: 0.5}\n";

class DeviceTest : public testing::TestWithParam<DeviceCase> {
 protected:
  static std::string text() {
    const std::string more = GetParam().text;
    return more +
           (more.find("gpt") != more.npos || more.find("llama") != more.npos ? kSums : kImages);
  }
};

// Attention with dropout has its own kernel on the CPU alone.
INSTANTIATE_TEST_SUITE_P(
    Jobs, DeviceTest,
    testing::Values(
        DeviceCase{"mlp_dropout",
                   "model: {type: mlp, hidden_sizes: [8], dropout: 0.5}\n"
                   "optimizer: {type: adamw, lr: 0.01}\n"},
        DeviceCase{"lenet_momentum",
                   "model: {type: lenet}\n"
                   "optimizer: {type: sgd, lr: 0.05, momentum: 0.9}\n"},
        DeviceCase{"resnet",
                   "model: {type: resnet, depth: 18, stem: cifar, embedding_size: 4}\n"
                   "optimizer: {type: sgd, lr: 0.05}\n"},
        DeviceCase{"mlp_weights",
                   "model: {type: mlp, hidden_sizes: [8]}\n"
                   "task: {type: classification, label_smoothing: 0.1}\n"
                   "optimizer: {type: adafactor, lr: 0.01}\n"},
        DeviceCase{
            "gpt",
            "model: {type: gpt, num_layers: 1, num_heads: 2, hidden_size: 16, dropout: 0.1}\n"
            "optimizer: {type: adamw, lr: 0.01}\n",
            1e-5},
        DeviceCase{"llama",
                   "model: {type: llama, num_layers: 1, num_heads: 2, hidden_size: 16}\n"
                   "optimizer: {type: lion, lr: 0.001}\n"},
        DeviceCase{"gan",
                   "model: {type: dcgan_generator, features: 4, latent: 8}\n"
                   "task: {type: gan, discriminator: {type: dcgan_discriminator, features: 4}, "
                   "discriminator_optimizer: {type: adam, lr: 0.001}}\n"
                   "optimizer: {type: adam, lr: 0.001}\n"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(DeviceTest, GivesTheCpusBits) {
  const auto there = make_job(text(), on(host_device(1)));
  // The CPU's generator has drawn the weights, the device's nothing so far.
  set_device_generator_state(host_device(1), generator_state());
  const int64_t before = host_device_calls();
  const std::vector<double> numbers = train(*there, 1, 6);
  EXPECT_GT(host_device_calls(), before + 100);
  for (const Parameter& item : there->parameters) {
    EXPECT_EQ(item.local.device(), host_device(1)) << item.name;
  }
  const auto results = evaluate(*there);
  const auto here = make_job(text(), on(at::kCPU));
  const std::vector<double> wanted = train(*here, 1, 6);
  ASSERT_EQ(numbers.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(numbers[i], wanted[i], GetParam().tolerance) << i;
  }
  EXPECT_NEAR(results->at("eval/loss"), evaluate(*here)->at("eval/loss"), GetParam().tolerance);
}

TEST_P(DeviceTest, GoesOnFromACheckpoint) {
  const auto straight = make_job(text(), on(host_device(1)));
  train(*straight, 1, 3);
  const TrainState state = saved(*straight, 3);
  const std::vector<double> wanted = train(*straight, 4, 6);
  for (const Parameter& item : state.model) EXPECT_TRUE(item.local.is_cpu()) << item.name;
  ASSERT_EQ(state.device_rngs.size(), 1U);
  const auto resumed = make_job(text(), on(host_device(1)));
  train(*resumed, 1, 1);  // generators and all else stand elsewhere
  restore(*resumed, state);
  EXPECT_EQ(train(*resumed, 4, 6), wanted);
}

TEST(DeviceScalerTest, LossesAreScaledThere) {
  const auto scaled_by = [&](const char* scale) {
    return make_job(
        std::string("model: {type: mlp, hidden_sizes: [8]}\noptimizer: {type: sgd, lr: 0.1}\n") +
            kImages + "accelerator: {mixed_precision: fp16, grad_scaler: {init_scale: " + scale +
            "}}\n",
        on(host_device(1)));
  };
  const auto scaled = scaled_by("1024");
  // A power of two changes no digit.
  EXPECT_EQ(train(*scaled, 1, 3), train(*scaled_by("4096"), 1, 3));
  // An overflow is found there too.
  const at::Tensor before = scaled->parameters[0].local.detach().clone();
  scaled->parameters[2].local.detach().mul_(1e30);
  Stopwatch watch;
  const GlobalBatch global_batch = scaled->train_loader->next();
  EXPECT_THROW(train_step(*scaled, global_batch, {.step = 4}, watch), DivergedError);
  EXPECT_TRUE(scaled->parameters[0].local.detach().equal(before));
}

TEST(DeviceOffloadTest, StateOnTheHostHasTheBitsOfTheDevice) {
  const std::string text =
      std::string(
          "model: {type: llama, num_layers: 2, num_heads: 2, hidden_size: 16}\n"
          "optimizer: {type: lion, lr: 0.001}\ncallbacks: [{type: ema, decay: 0.9}]\n") +
      kSums + "accelerator: {fsdp: {stage: 3, ignored: ['*norm*']";
  const std::vector<double> wanted = train(*make_job(text + "}}\n", on(host_device(1))), 1, 4);
  const TempFolder folder;
  for (const std::string& offload : {std::string("cpu"), "disk, offload_path: " + folder.path()}) {
    const auto job = make_job(text + ", offload: " + offload + "}}\n", on(host_device(1)));
    const int64_t before = host_device_calls();
    EXPECT_EQ(train(*job, 1, 4), wanted) << offload;
    EXPECT_GT(host_device_calls(), before + 100);
    for (const Parameter& item : job->parameters) {
      EXPECT_EQ(item.local.is_cpu(), !item.is_replicated()) << item.name;
    }
    for (const Parameter& item : parameters_of(*job->model)) {
      EXPECT_EQ(item.local.device(), host_device(1)) << item.name;
    }
  }
}

TEST(DeviceRandomTest, FilesKeepTheGeneratorsOfAllDevicesByRank) {
  TrainState state;
  seed_generator(7);
  state.rng = generator_state();
  state.other_rngs = {generator_state()};
  const at::Tensor first = device_generator_states(host_device().type());
  seed_device_generator(host_device(1), 8);
  const at::Tensor second = device_generator_states(host_device().type());
  state.device_rngs = {first, second};
  ASSERT_EQ(first.size(0), kHostDevices);
  EXPECT_TRUE(first[0].equal(second[0]));
  EXPECT_FALSE(first[1].equal(second[1]));
  TrainState read;
  read_random_states(random_states_value(state, 0), 0, read);
  read_random_states(random_states_value(state, 1), 1, read);
  ASSERT_EQ(read.device_rngs.size(), 2U);
  EXPECT_TRUE(read.device_rngs[0].equal(first));
  EXPECT_TRUE(read.device_rngs[1].equal(second));
  EXPECT_TRUE(read.other_rngs.at(0).equal(state.rng));
}

TEST(DeviceRandomTest, ACheckpointOfTheCpuGivesTheDeviceANewStream) {
  const std::string text =
      std::string(
          "model: {type: mlp, hidden_sizes: [8], dropout: 0.5}\noptimizer: {type: sgd, lr: "
          "0.1}\n") +
      kImages;
  const auto here = make_job(text, on(at::kCPU));
  train(*here, 1, 2);
  const TrainState state = saved(*here, 2);
  EXPECT_TRUE(state.device_rngs.empty());
  const auto one = make_job(text, on(host_device(0))), other = make_job(text, on(host_device(0)));
  const at::Tensor start = device_generator_states(host_device().type())[0].clone();
  restore(*one, state);
  EXPECT_FALSE(device_generator_states(host_device().type())[0].equal(start));
  const std::vector<double> numbers = train(*one, 3, 4);
  restore(*other, state);
  EXPECT_EQ(train(*other, 3, 4), numbers);
}

/// What two ranks, each a thread, find in four steps; rank 0's numbers.
std::vector<double> on_two_ranks(const std::string& text, bool on_devices) {
  std::vector<JoinRequest> requests = requests_of(2);
  for (JoinRequest& request : requests) {
    if (on_devices) request.device_backend = host_device_backend();
  }
  std::vector<double> numbers;
  std::mutex building;  // threads share the generators that weights are drawn from
  const auto errors = join_each(requests, [&](Communicator& group) {
    World world;
    world.mesh = data_parallel_mesh({std::shared_ptr<Communicator>(), &group});
    world.inputs_are_same = true;  // the jobs are built one after another
    if (on_devices) world.device = host_device(static_cast<c10::DeviceIndex>(group.rank()));
    std::unique_ptr<Job> job;
    {
      const std::lock_guard lock(building);
      job = make_job(text, world);
    }
    group.barrier("all are built");
    const std::vector<double> own = train(*job, 1, 4);
    if (group.rank() == 0) numbers = own;
  });
  for (const std::string& error : errors) EXPECT_EQ(error, "");
  return numbers;
}

TEST(DeviceRecomputeTest, BlocksDrawTheirDropoutAgainOnTheDevice) {
  const std::string text =
      std::string(
          "model: {type: gpt, num_layers: 2, num_heads: 2, hidden_size: 16, dropout: 0.3}\n") +
      kSums;
  const auto kept = make_job(text, on(host_device(1)));
  const std::vector<double> numbers = train(*kept, 1, 3);
  for (const std::string& options : {std::string("activation_checkpointing: blocks, "),
                                     std::string("activation_checkpointing: blocks, "
                                                 "activation_cpu_offload: true, ")}) {
    std::string again = text;
    again.replace(again.find("\ntrain: {"), 9, "\ntrain: {" + options);
    EXPECT_EQ(train(*make_job(again, on(host_device(1))), 1, 3), numbers) << options;
  }
}

/// Whether the memory of a tensor is free.
class IsFreed {
 public:
  explicit IsFreed(const at::Tensor& tensor) : tensor_(tensor.getIntrusivePtr()) {}
  bool operator()() const { return tensor_.expired(); }

 private:
  c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl> tensor_;
};

TEST(OffloadedInputsTest, TheDeviceHoldsTheLastInputAndTheNextOfBackward) {
  OffloadedInputs inputs;
  std::vector<std::function<at::Tensor()>> stored;
  std::vector<IsFreed> freed;
  for (int64_t i = 0; i < 3; ++i) {
    at::Tensor input = at::full({2, 3}, i, at::kFloat).t().to(host_device(1));
    input.requires_grad_(i != 0);
    freed.emplace_back(input);
    stored.push_back(inputs.store(input));
    EXPECT_TRUE(stored.back()().is_same(input)) << "the forward pass computes with the input";
  }
  EXPECT_TRUE(freed[0]() && freed[1]() && !freed[2]());
  for (const int64_t i : {2, 1, 0, 1}) {
    const at::Tensor again = stored[static_cast<size_t>(i)]();
    EXPECT_EQ(again.device(), host_device(1));
    EXPECT_EQ(again.strides(), at::IntArrayRef({1, 3}));
    EXPECT_EQ(again.requires_grad(), i != 0);
    EXPECT_TRUE(again.is_leaf());
    EXPECT_TRUE(again.cpu().equal(at::full({3, 2}, i, at::kFloat)));
  }
  // A later forward pass releases what the last one holds.
  inputs.store(at::ones({1}, host_device(1)));
  EXPECT_TRUE(freed[2]());
}

TEST(OffloadedInputsTest, InputsOnTheCpuStay) {
  const at::Tensor input = at::ones({2});
  OffloadedInputs inputs;
  const auto stored = inputs.store(input);
  inputs.store(at::ones({1}));
  EXPECT_TRUE(stored().is_same(input));
}

// Canonical sums take one thread, which backward on such a device is not bound to.
class DeviceRanksTest : public testing::TestWithParam<DeviceCase> {};

INSTANTIATE_TEST_SUITE_P(
    Strategies, DeviceRanksTest,
    testing::Values(DeviceCase{"ddp", ""}, DeviceCase{"bf16_hook", "ddp: {comm_hook: bf16}"},
                    DeviceCase{"power_sgd",
                               "ddp: {comm_hook: power_sgd, power_sgd: {start: 2 steps}}"},
                    DeviceCase{"canonical", "reduction: canonical", 1e-6},
                    DeviceCase{"local_sgd", "local_sgd: {every: 2 steps}"},
                    DeviceCase{"sync_batch_norm", "sync_batch_norm: true"},
                    DeviceCase{"checked", "debug: collectives"}),
    [](const auto& info) { return std::string(info.param.name); });

TEST_P(DeviceRanksTest, GiveTheCpusBits) {
  const std::string text =
      std::string("model: ") +
      // Running statistics are not the same for any number of ranks.
      (std::string(GetParam().name) == "canonical"
           ? "{type: lenet}"
           : "{type: resnet, depth: 18, stem: cifar, embedding_size: 4}") +
      "\n"
      "data: {train: {type: synthetic/glyphs, length: 32}, loader: {workers: 0}}\n"
      "optimizer: {type: sgd, lr: 0.05}\n"
      "train: {until: 4 steps, batch: 8, micro_batch: 4}\n"
      "accelerator: {" +
      std::string(GetParam().text) + "}\n";
  const std::vector<double> numbers = on_two_ranks(text, true);
  const std::vector<double> wanted = on_two_ranks(text, false);
  ASSERT_EQ(numbers.size(), 8U);
  ASSERT_EQ(wanted.size(), 8U);
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(numbers[i], wanted[i], GetParam().tolerance) << i;
  }
}

TEST(ChooseDeviceTest, TheCpuAsksForNothing) {
  EXPECT_EQ(choose_device(DeviceChoice::kCpu, "all", 5), at::Device(at::kCPU));
  EXPECT_EQ(device_text(at::kCPU), "cpu");
  EXPECT_EQ(device_text(host_device(1)), "hpu");
}

}  // namespace
}  // namespace accel::device_test
