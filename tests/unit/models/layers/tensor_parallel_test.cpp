// Types of the activations that models send between the ranks of tensor parallelism.
#include "models/layers/tensor_parallel.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "core/api/model.h"
#include "tests/unit/build_component.h"
#include "tests/unit/cpu_autocast.h"

namespace accel::tensor_parallel_test {
namespace {

/// One rank, which records the types of what is entered.
class RecordingRanks final : public TensorRanks {
 public:
  RecordingRanks() : TensorRanks(/*rank=*/0, /*size=*/1) {}

  bool divides_sequence() const override { return false; }
  at::Tensor enter(const at::Tensor& x) const override {
    entered_.push_back(x.scalar_type());
    return x;
  }
  at::Tensor leave(const at::Tensor& x) const override { return x; }
  at::Tensor gather_features(const at::Tensor& x, int64_t /*size*/) const override { return x; }
  at::Tensor reduce(const at::Tensor& x, Reduce /*how*/) const override { return x; }
  std::unique_ptr<RandomScope> own_random_stream(at::Device /*device*/) const override {
    return nullptr;
  }

  const std::vector<at::ScalarType>& entered() const { return entered_; }

 private:
  mutable std::vector<at::ScalarType> entered_;
};

std::vector<at::ScalarType> entered_by(const std::string& model, bool is_autocast) {
  const auto ranks = std::make_shared<RecordingRanks>();
  ModelContext context;
  context.data.input = {8};
  context.data.input_type = DType::kI64;
  context.data.vocab = 23;
  context.data.target = {8};
  context.data.target_type = DType::kI64;
  context.tensor = ranks;
  const auto built = build<Model>(model, context);
  const CpuAutocast autocast(is_autocast);
  built->forward(at::arange(16).view({2, 8}));
  return ranks->entered();
}

using Types = std::vector<at::ScalarType>;

TEST(TensorParallelTest, ActivationsAreSentInTheTypeOfMatrixProducts) {
  const Types products(3, at::kBFloat16);  // attention, MLP and head of one block
  for (const std::string options :
       {"{type: gpt, num_layers: 1, hidden_size: 16, num_heads: 2}",
        "{type: opt, num_layers: 1, hidden_size: 16, num_heads: 2}",
        "{type: llama, num_layers: 1, hidden_size: 16, num_heads: 2}"}) {
    EXPECT_EQ(entered_by(options, true), products) << options;
    EXPECT_EQ(entered_by(options, false), Types(3, at::kFloat)) << options;
  }
}

TEST(TensorParallelTest, ARouterGetsItsInputInFloat32) {
  const std::string options =
      "{type: llama, num_layers: 1, hidden_size: 16, num_heads: 2, moe: {num_experts: 4}}";
  EXPECT_EQ(entered_by(options, true), (Types{at::kBFloat16, at::kFloat, at::kBFloat16}));
}

TEST(TensorParallelTest, Float64IsNotCast) {
  const auto ranks = std::make_shared<RecordingRanks>();
  const CpuAutocast autocast(true);
  EXPECT_EQ(enter(ranks, at::ones({2}, at::kDouble)).scalar_type(), at::kDouble);
  EXPECT_EQ(enter(nullptr, at::ones({2})).scalar_type(), at::kFloat);
}

}  // namespace
}  // namespace accel::tensor_parallel_test
