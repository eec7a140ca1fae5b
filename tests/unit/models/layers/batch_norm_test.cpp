// Batch norm over ranks: threads that share what they sum.
#include "models/layers/batch_norm.h"

#include <ATen/ops/arange.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>

#include <barrier>
#include <memory>
#include <mutex>
#include <thread>

#include "core/api/model.h"
#include "core/base/error.h"
#include "models/layers/share_batch_norm.h"
#include "tests/unit/build_component.h"

namespace accel::batch_norm_test {
namespace {

/// The sum that threads wait for together.
class ThreadSum {
 public:
  explicit ThreadSum(int64_t ranks) : come_(ranks), gone_(ranks) {}

  void operator()(const at::Tensor& numbers) {
    {
      const std::lock_guard lock(mutex_);
      sum_ = sum_.defined() ? sum_.add(numbers) : numbers.clone();
    }
    come_.arrive_and_wait();
    numbers.copy_(sum_);
    gone_.arrive_and_wait();
    {
      const std::lock_guard lock(mutex_);
      sum_.reset();
    }
    come_.arrive_and_wait();  // nobody begins the next sum before all have dropped this one
  }

 private:
  std::mutex mutex_;
  std::barrier<> come_, gone_;
  at::Tensor sum_;
};

at::Tensor samples() {
  const at::Tensor count = at::arange(8 * 3 * 4, at::kFloat).view({8, 3, 2, 2});
  return count.mul(0.7).sin().add(count.remainder(3).mul(5));  // not centred
}

/// What a rank, or one process, gets for samples first to first + size of the batch.
struct Passed {
  at::Tensor out, input_grad, weight_grad, bias_grad, mean, variance;
};

template <class Norm>
Passed pass(Norm norm, int64_t first, int64_t size) {
  norm->weight.detach().copy_(at::arange(3, at::kFloat).add(0.5));
  const at::Tensor input = samples().narrow(0, first, size).clone().requires_grad_(true);
  const at::Tensor out = norm->forward(input);
  // A loss that depends on where a sample stands in the whole batch.
  const at::Tensor factor = at::arange(8 * 12, at::kFloat).view({8, 3, 2, 2}).cos();
  out.mul(out).mul(factor.narrow(0, first, size)).sum().backward();
  return {out.detach(),      input.grad(),       norm->weight.grad(),
          norm->bias.grad(), norm->running_mean, norm->running_var};
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  return a.sub(b).abs().max().item().toDouble() / b.abs().max().item().toDouble();
}

TEST(RankBatchNormTest, UnequalSharesGiveWhatOneProcessGets) {
  const Passed whole = pass(torch::nn::BatchNorm2d(3), 0, 8);
  for (const std::vector<int64_t>& sizes :
       {std::vector<int64_t>{4, 4}, {5, 3}, {1, 4, 3}, {7, 1}}) {
    const auto ranks = static_cast<int64_t>(sizes.size());
    ThreadSum sum(ranks);
    std::vector<Passed> passed(sizes.size());
    {
      std::vector<std::jthread> threads;
      int64_t first = 0;
      for (size_t rank = 0; rank < sizes.size(); ++rank) {
        threads.emplace_back([&, rank, first] {
          RankBatchNorm2d norm(3);
          norm->share([&sum](const at::Tensor& numbers) { sum(numbers); });
          passed[rank] = pass(norm, first, sizes[rank]);
        });
        first += sizes[rank];
      }
    }
    int64_t first = 0;
    at::Tensor weight_grad = whole.weight_grad.mul(0), bias_grad = whole.bias_grad.mul(0);
    for (size_t rank = 0; rank < sizes.size(); ++rank) {
      EXPECT_LT(apart(passed[rank].out, whole.out.narrow(0, first, sizes[rank])), 1e-6);
      EXPECT_LT(apart(passed[rank].input_grad, whole.input_grad.narrow(0, first, sizes[rank])),
                1e-5);
      EXPECT_LT(apart(passed[rank].mean, whole.mean), 1e-6);
      EXPECT_LT(apart(passed[rank].variance, whole.variance), 1e-6);
      weight_grad.add_(passed[rank].weight_grad);
      bias_grad.add_(passed[rank].bias_grad);
      first += sizes[rank];
    }
    EXPECT_LT(apart(weight_grad, whole.weight_grad), 1e-5);
    EXPECT_LT(apart(bias_grad, whole.bias_grad), 1e-5);
  }
}

TEST(RankBatchNormTest, AloneOrInEvaluationItIsPyTorchs) {
  const Passed whole = pass(torch::nn::BatchNorm2d(3), 0, 8);
  const Passed alone = pass(RankBatchNorm2d(3), 0, 8);
  EXPECT_TRUE(alone.out.equal(whole.out));
  EXPECT_TRUE(alone.input_grad.equal(whole.input_grad));
  RankBatchNorm2d norm(3);
  norm->share([](const at::Tensor&) { FAIL() << "nothing is to be summed"; });
  norm->eval();
  EXPECT_TRUE(norm->forward(samples()).defined());
}

TEST(ShareBatchNormTest, CountsTheModelsBatchNorms) {
  ModelContext context;
  context.data.input = {3, 32, 32};
  context.data.classes = 10;
  const auto resnet = build<Model>("{type: resnet, depth: 18}", context);
  EXPECT_EQ(share_batch_norm(*resnet, {}), 20);
  const auto mlp = build<Model>("{type: mlp}", context);
  EXPECT_EQ(share_batch_norm(*mlp, {}), 0);
}

class ForeignModel final : public Model {
 public:
  ForeignModel() { layers_->push_back(torch::nn::BatchNorm2d(3)); }
  at::Tensor forward(const at::Tensor& inputs) override { return layers_->forward(inputs); }
  torch::nn::Module& module() override { return *layers_; }
  const char* default_task() const override { return "classification"; }

 private:
  torch::nn::Sequential layers_;
};

TEST(ShareBatchNormTest, PyTorchsOwnClassIsRefusedByName) {
  ForeignModel model;
  try {
    share_batch_norm(model, {});
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
    EXPECT_EQ(std::string(error.what()),
              "'0' is a PyTorch batch norm, which does not support several ranks");
    EXPECT_EQ(error.hint(), "leave 'sync_batch_norm' out, or build the model with RankBatchNorm2d");
  }
}

}  // namespace
}  // namespace accel::batch_norm_test
