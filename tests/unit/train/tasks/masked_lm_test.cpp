// Guessing hidden tokens.
#include <ATen/ops/allclose.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/api/targets.h"
#include "core/api/task.h"
#include "core/api/token_head.h"
#include "kernels/choice.h"
#include "tests/unit/build_component.h"
#include "tests/unit/memory_meter.h"
#include "tests/unit/train/tasks/fake_models.h"

namespace accel::masked_lm_test {
namespace {

TaskContext tokens(Shape target = {8}) {
  TaskContext context;
  context.data = {.input = {8}, .input_type = DType::kI64, .target = std::move(target), .vocab = 3};
  return context;
}

constexpr int64_t kOut = kIgnoredTarget;

TEST(MaskedLmTest, OnlyHiddenTokensCount) {
  const auto task = build<Task>("masked_lm", tokens());
  EchoModel model;
  const Batch first = three_places({2, kOut, kOut});
  EXPECT_EQ(task->weight(first), 1.0);
  EXPECT_NEAR(task->loss(model, first).item<double>(), std::log(std::exp(3.0) + 2) - 3, 1e-6);
  const Batch second = three_places({kOut, 1, 0});
  EXPECT_EQ(task->weight(second), 2.0);
  EXPECT_NEAR(task->loss(model, second).item<double>(), std::log(3.0), 1e-6);
}

TEST(MaskedLmTest, NothingHiddenIsNoLoss) {
  EchoModel model;
  const auto task = build<Task>("masked_lm", tokens());
  EXPECT_EQ(task->weight(three_places({kOut, kOut, kOut})), 0.0);
  EXPECT_EQ(task->loss(model, three_places({kOut, kOut, kOut})).item<double>(), 0.0);
}

TEST(MaskedLmTest, TheOutputIsTheLikeliestTokenAtEachPlace) {
  EchoModel model;
  const Evaluation result =
      build<Task>("masked_lm", tokens())->evaluate(model, three_places({2, 1, kOut}));
  EXPECT_EQ(result.output.sizes(), (std::vector<int64_t>{1, 3}));
  EXPECT_EQ(result.output[0][0].item<int64_t>(), 2);
}

TEST(MaskedLmTest, TheModelSeesTheWholeBatch) {
  /// Gives the lengths as scores, which it has only when it is asked with the batch.
  class LengthModel final : public Model {
   public:
    at::Tensor forward(const at::Tensor&) override { throw std::logic_error("without lengths"); }
    at::Tensor forward_batch(const Batch& batch) override {
      return batch.lengths.to(at::kFloat).view({1, 1, 1}).expand({1, 3, 3});
    }
    torch::nn::Module& module() override { throw std::logic_error("a fake has no module"); }
    const char* default_task() const override { return "masked_lm"; }
  };
  LengthModel model;
  Batch batch = three_places({2, 1, kOut});
  batch.lengths = at::tensor(std::vector<int64_t>{2}, at::kLong);
  EXPECT_NEAR(build<Task>("masked_lm", tokens())->loss(model, batch).item<double>(), std::log(3.0),
              1e-6);
}

/// Hidden states [1, 3, 2] of a head for 3 tokens.
class HeadModel final : public Model, public TokenHead {
 public:
  at::Tensor forward(const at::Tensor&) override { throw std::logic_error("without a batch"); }
  at::Tensor forward_batch(const Batch& batch) override {
    return at::linear(token_features(batch), weight, bias);
  }
  torch::nn::Module& module() override { throw std::logic_error("a fake has no module"); }
  const char* default_task() const override { return "masked_lm"; }
  bool has_token_head() const override { return true; }
  at::Tensor token_features(const Batch&) override { return hidden; }
  at::Tensor token_weight() override { return weight; }
  at::Tensor token_bias() override { return bias; }

  at::Tensor hidden = at::tensor({1.0, 2.0, -1.0, 0.5, 3.0, -2.0}).to(at::kFloat).view({1, 3, 2});
  at::Tensor weight = at::tensor({0.5, -1.0, 2.0, 0.25, -0.5, 1.5}).to(at::kFloat).view({3, 2});
  at::Tensor bias = at::tensor({0.5, 0.0, -0.25}).to(at::kFloat);
};

struct HeadResult {
  double loss;
  std::vector<at::Tensor> gradients;
  int whole_logits;  ///< tensors of the size of all logits
};

HeadResult result_of(Kernels kernels, const Batch& batch) {
  set_kernels_of_process(kernels);
  HeadModel model;
  for (at::Tensor* tensor : {&model.hidden, &model.weight, &model.bias}) {
    tensor->requires_grad_(true);
  }
  const auto task = build<Task>("masked_lm", tokens());
  HeadResult out = {};
  out.whole_logits = memory_of([&] {
                       const at::Tensor loss = task->loss(model, batch);
                       loss.backward();
                       out.loss = loss.item<double>();
                     }).count(3 * 3 * sizeof(float));
  out.gradients = {model.hidden.grad(), model.weight.grad(), model.bias.grad()};
  set_kernels_of_process(Kernels::kReference);
  return out;
}

TEST(MaskedLmTest, FusedKernelsComputeLogitsOfMaskedTokensOnly) {
  for (const Batch& batch : {three_places({2, kOut, 1}), three_places({kOut, 0, kOut}),
                             three_places({kOut, kOut, kOut})}) {
    const HeadResult whole = result_of(Kernels::kReference, batch);
    const HeadResult masked = result_of(Kernels::kFused, batch);
    EXPECT_NEAR(masked.loss, whole.loss, 1e-6);
    EXPECT_GT(whole.whole_logits, 0);
    EXPECT_EQ(masked.whole_logits, 0);
    for (size_t i = 0; i < whole.gradients.size(); ++i) {
      ASSERT_TRUE(masked.gradients[i].defined()) << i;
      EXPECT_TRUE(at::allclose(masked.gradients[i], whole.gradients[i], 1e-6, 1e-6)) << i;
    }
  }
}

TEST(MaskedLmTest, WhatDoesNotFitIsRefused) {
  EXPECT_EQ(complaint<Task>("masked_lm", tokens({})),
            "the task 'masked_lm' needs a target token at each position, but the data's input is "
            "I64 [8] and the target I64 []");
  EchoModel model;
  Batch batch = three_places({2, 1, kOut});
  batch.inputs = batch.inputs.view({1, 9});
  try {
    build<Task>("masked_lm", tokens())->loss(model, batch);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the task 'masked_lm' needs logits for every token, but the model's output is "
                 "[1, 9]");
  }
}

}  // namespace
}  // namespace accel::masked_lm_test
