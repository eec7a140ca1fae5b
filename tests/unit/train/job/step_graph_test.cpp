// Steps as graphs: when a pass is recorded, what it reads and what it leaves.
#include "train/job/step_graph.h"

#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/unit/train/job/make_job.h"

namespace accel::step_graph_test {
namespace {

/// Runs its work, and counts.
class CountedGraph final : public DeviceGraph {
 public:
  struct Counts {
    int recorded = 0, launched = 0;
  };

  explicit CountedGraph(Counts& counts) : counts_(counts) {}
  void record(const std::function<void()>& work) override {
    ++counts_.recorded;
    work();
  }
  void launch(const std::function<void()>& /*work*/) override { ++counts_.launched; }

 private:
  Counts& counts_;
};

Batch batch_of(double value, int64_t rows = 3) {
  return {at::full({rows, 2}, value), at::full({rows}, value), {}, {}, {}};
}

class StepGraphTest : public testing::Test {
 protected:
  StepGraphTest() {
    Parameter leaf;
    leaf.name = "weight";
    leaf.local = at::ones({2}).requires_grad_();
    leaves_.push_back(leaf);
  }

  /// The pass of a loss whose gradient is the sum of the inputs.
  at::Tensor pass(const Batch& batch) {
    seen_ = batch.inputs;
    at::Tensor loss = batch.inputs.matmul(leaves_[0].local).sum();
    loss.backward();
    return loss.detach();
  }
  at::Tensor& gradient() { return leaves_[0].local.mutable_grad(); }

  std::vector<Parameter> leaves_;
  CountedGraph::Counts counts_;
  at::Tensor seen_;
  StepGraph graph_{[this] { return std::make_unique<CountedGraph>(counts_); }, leaves_};
};

TEST_F(StepGraphTest, RecordsTheThirdPass) {
  const Batch batch = batch_of(1);
  EXPECT_FALSE(graph_.takes(batch));
  EXPECT_FALSE(graph_.takes(batch));
  ASSERT_TRUE(graph_.takes(batch));
  const at::Tensor loss = graph_.run(batch, [&](const Batch& of) { return pass(of); });
  EXPECT_EQ(counts_.recorded, 1);
  EXPECT_EQ(counts_.launched, 1);
  EXPECT_EQ(loss.item<float>(), 6);
  EXPECT_TRUE(gradient().equal(at::full({2}, 3.0)));
  EXPECT_NE(seen_.const_data_ptr(), batch.inputs.const_data_ptr()) << "the graph has its own batch";
}

TEST_F(StepGraphTest, LaterPassesReadTheirBatchAndLeaveTheGradientsOfTheGraph) {
  for (int i = 0; i < 2; ++i) (void)graph_.takes(batch_of(1));
  ASSERT_TRUE(graph_.takes(batch_of(1)));
  graph_.run(batch_of(1), [&](const Batch& of) { return pass(of); });
  const void* const memory = gradient().const_data_ptr();
  EXPECT_FALSE(graph_.takes(batch_of(2))) << "gradients would be added to";
  gradient().reset();
  ASSERT_TRUE(graph_.takes(batch_of(2)));
  graph_.run(batch_of(2), [&](const Batch&) -> at::Tensor { throw std::logic_error("launched"); });
  EXPECT_EQ(counts_.recorded, 1);
  EXPECT_EQ(counts_.launched, 2);
  EXPECT_TRUE(seen_.equal(at::full({3, 2}, 2.0)));
  ASSERT_TRUE(gradient().defined());
  EXPECT_EQ(gradient().const_data_ptr(), memory);
}

TEST_F(StepGraphTest, BatchesOfAnotherShapeAreLaunchedOneByOne) {
  for (int i = 0; i < 2; ++i) (void)graph_.takes(batch_of(1));
  ASSERT_TRUE(graph_.takes(batch_of(1)));
  graph_.run(batch_of(1), [&](const Batch& of) { return pass(of); });
  gradient().reset();
  EXPECT_FALSE(graph_.takes(batch_of(1, 2)));
  Batch padded = batch_of(1);
  padded.lengths = at::full({3}, 2, at::kLong);
  EXPECT_FALSE(graph_.takes(padded));
  EXPECT_TRUE(graph_.takes(batch_of(3)));
}

TEST_F(StepGraphTest, APassThatCannotBeRecordedIsAnError) {
  for (int i = 0; i < 3; ++i) (void)graph_.takes(batch_of(1));
  try {
    graph_.run(batch_of(1), [](const Batch&) -> at::Tensor {
      TORCH_CHECK(false, "item: the host reads the device");
    });
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
    EXPECT_STREQ(error.what(),
                 "the passes of this job cannot be recorded as a CUDA graph: item: the host reads "
                 "the device");
    EXPECT_EQ(error.hint(), "leave 'accelerator.cuda_graph' out");
  }
}

/// Says what the device would.
class FixedMeter final : public DeviceMeter {
 public:
  FixedMeter(DeviceMemory& memory, int& resets) : memory_(memory), resets_(resets) {}
  DeviceMemory read() override { return memory_; }
  void reset_peak() override { ++resets_; }

 private:
  DeviceMemory& memory_;
  int& resets_;
};

constexpr int64_t kMiB = int64_t{1} << 20;

/// What is said before the third step, whose passes are recorded or not.
std::string said_of_memory(int64_t free, bool is_recorded) {
  std::vector<Parameter> leaves(1);
  leaves[0].local = at::ones({2}).requires_grad_();
  CountedGraph::Counts counts;
  DeviceMemory memory = {.free = free, .allocated = 1000 * kMiB, .peak = 5000 * kMiB};
  int resets = 0;
  StepGraph graph([&] { return std::make_unique<CountedGraph>(counts); }, leaves,
                  std::make_unique<FixedMeter>(memory, resets));
  EXPECT_FALSE(graph.takes(batch_of(1)));
  EXPECT_EQ(resets, 0) << "the first step makes the optimizer's state";
  EXPECT_FALSE(graph.takes(batch_of(1)));
  EXPECT_EQ(resets, 1);
  memory.peak = 1400 * kMiB;
  testing::internal::CaptureStdout();
  EXPECT_EQ(graph.takes(batch_of(1)), is_recorded);
  EXPECT_EQ(graph.takes(batch_of(1)), is_recorded) << "and is not asked again";
  return testing::internal::GetCapturedStdout();
}

TEST(GraphMemoryTest, APassIsRecordedIfTheDeviceHasTheMemoryOfASecondStep) {
  EXPECT_EQ(said_of_memory(628 * kMiB, true),
            "accelerator.cuda_graph: passes are recorded: a graph takes 628 MiB, and 628 MiB of "
            "the GPU's memory are free\n");
  EXPECT_EQ(said_of_memory(628 * kMiB - 1, false),
            "accelerator.cuda_graph: passes are launched one by one: a graph takes 628 MiB, and "
            "627 MiB of the GPU's memory are free\n");
}

constexpr auto kImages =
    "model: {type: mlp, hidden_sizes: [4]}\n"
    "data: {train: {type: synthetic/glyphs, length: 8}}\n"
    "train: {until: 1 steps, batch: 4";

std::string error_of(const std::string& text) {
  try {
    make_job(text);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

TEST(CudaGraphOptionTest, IsRefusedWhereItCannotAct) {
  const std::string images = kImages;
  const auto with = [](const std::string& more) {
    return "accelerator: {cuda_graph: true" + more + "}\n";
  };
  EXPECT_NE(error_of(images + "}\n" + with(""))
                .find("CUDA graphs are unavailable: the job computes on the CPU"),
            std::string::npos);
  const std::pair<std::string, std::string> cases[] = {
      {images + ", micro_batch: 2}\n" + with(""), "gradient accumulation"},
      {images + "}\n" + with(", mixed_precision: fp16"), "mixed_precision fp16"},
      {"model: {type: gpt, num_layers: 1, num_heads: 1, hidden_size: 4}\n"
       "task: {type: causal_lm, neftune_noise_alpha: 5}\n"
       "data: {train: {type: synthetic/addition, length: 8}}\ntrain: {until: 1 steps, batch: 4}\n" +
           with(""),
       "the task 'causal_lm' with these options"},
  };
  for (const auto& [recipe, what] : cases) {
    const std::string error = error_of(recipe);
    EXPECT_NE(error.find("'cuda_graph' does not support " + what), std::string::npos) << error;
  }
}

TEST(CudaGraphOptionTest, AutoSaysWhyPassesAreNotRecorded) {
  const auto said = [](const std::string& more) {
    testing::internal::CaptureStdout();
    const auto job = make_job(kImages + more + "}\naccelerator: {cuda_graph: auto}\n");
    EXPECT_EQ(job->step_graph, nullptr);
    return testing::internal::GetCapturedStdout();
  };
  const std::string start = "accelerator.cuda_graph: passes are launched one by one: ";
  EXPECT_EQ(said(""), start + "CUDA graphs are unavailable: the job computes on the CPU\n");
  EXPECT_EQ(said(", micro_batch: 2"), start + "a graph does not support gradient accumulation\n");
}

}  // namespace
}  // namespace accel::step_graph_test
