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

}  // namespace
}  // namespace accel::step_graph_test
