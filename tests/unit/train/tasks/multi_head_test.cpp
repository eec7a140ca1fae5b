#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/api/heads.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/tasks/fake_models.h"

namespace accel::multi_head_test {
namespace {

/// Two heads whose outputs are the inputs: two numbers of 'kind', one of 'size'.
class TwoHeads final : public MultiHead {
 public:
  at::Tensor forward(const at::Tensor& inputs) override { return inputs; }
  torch::nn::Module& module() override { throw std::logic_error("a fake has no module"); }
  const char* default_task() const override { return "multi"; }
  const std::map<std::string, int64_t>& heads() const override { return heads_; }

 private:
  std::map<std::string, int64_t> heads_ = {{"kind", 2}, {"size", 1}};
};

std::unique_ptr<Task> multi(const std::string& heads) {
  return build<Task>("{type: multi_head, heads: " + heads + "}");
}

/// Says 1 and 3 for the classes, of which it is the second, and 5 for a size of 2.
Batch one_sample() {
  return numbered_batch(at::tensor({1.0F, 3.0F, 5.0F}).view({1, 3}),
                        at::tensor({1.0F, 2.0F}).view({1, 2}));
}

std::string complaint_of(const std::string& heads) {
  TwoHeads model;
  try {
    multi(heads)->loss(model, one_sample());
  } catch (const Error& error) {
    return std::string(error.what()) + (error.hint().empty() ? "" : "; " + error.hint());
  }
  return "";
}

TEST(MultiTest, EachHeadHasItsLossAndItsShare) {
  TwoHeads model;
  const double kind = std::log1p(std::exp(-2.0)), size = 9,
               sure = std::log1p(std::exp(5.0)) - 2 * 5;
  const auto loss = [&](const std::string& heads) {
    return multi(heads)->loss(model, one_sample()).item<double>();
  };
  EXPECT_NEAR(loss("{kind: {loss: cross_entropy}, size: {column: 1, weight: 0.5}}"),
              kind + 0.5 * size, 1e-5);
  EXPECT_NEAR(loss("{kind: {loss: cross_entropy}, size: {column: 1, weight: 0}}"), kind, 1e-5);
  EXPECT_NEAR(loss("{kind: {loss: cross_entropy, weight: 0}, size: {loss: bce, column: 1}}"), sure,
              1e-5);
}

TEST(MultiTest, HeadsAndLossesMustBeTheSame) {
  EXPECT_EQ(complaint_of("{kind: {loss: cross_entropy}}"),
            "the model's head 'size' has no loss; add 'size' to 'task.heads'");
  EXPECT_EQ(complaint_of("{kind: {loss: cross_entropy}, size: {column: 1}, age: {}}"),
            "the model has no head 'age'");
  EXPECT_EQ(complaint_of("{kind: {column: 1}, size: {}}"),
            "the head 'kind' needs 3 targets, including those before it, but samples have 2");
}

TEST(MultiTest, TargetsOfClassesAreTheirNumbers) {
  TwoHeads model;
  const auto refusal = [&](float target) {
    Batch batch = one_sample();
    batch.targets = at::tensor({target, 2.0F}).view({1, 2});
    try {
      multi("{kind: {loss: cross_entropy}, size: {column: 1}}")->loss(model, batch);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(refusal(0.5F), "the target of head 'kind' is 0.5, and its classes are 0 to 1");
  EXPECT_EQ(refusal(2), "the target of head 'kind' is 2, and its classes are 0 to 1");
  EXPECT_EQ(refusal(-1), "the target of head 'kind' is -1, and its classes are 0 to 1");
  EXPECT_NE(refusal(NAN), "");
  EXPECT_EQ(refusal(0), "");
}

TEST(MultiTest, AModelOfOneHeadIsRefused) {
  EchoModel model;
  try {
    multi("{kind: {}}")->loss(model, one_sample());
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the task 'multi_head' needs a model with several heads, and this one has none");
    EXPECT_EQ(error.hint(), "the model 'heads' adds them to any model");
  }
  TaskContext context;
  context.data.input = {4};
  EXPECT_EQ(complaint<Task>("{type: multi_head, heads: {kind: {}}}", context),
            "the task 'multi_head' wants samples with a row of targets, not []");
}

}  // namespace
}  // namespace accel::multi_head_test
