// Regression: the three distances and the shapes that do not fit.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "core/api/task.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/tasks/fake_models.h"

namespace accel::regression_test {
namespace {

TaskContext numeric_targets() {
  TaskContext context;
  context.data.input = {4};
  context.data.target_type = DType::kF32;
  return context;
}

at::Tensor column(const std::vector<double>& values) {
  return at::tensor(values, at::kFloat).view({-1, 1});
}

TEST(RegressionTest, MeasuresTheDistanceItIsToldTo) {
  const Batch batch = numbered_batch(column({1, 2, 6}), column({1, 3, 3}).flatten());
  const std::pair<const char*, double> cases[] = {
      {"regression", 10.0 / 3},
      {"{type: regression, loss: mae}", 4.0 / 3},
      {"{type: regression, loss: huber}", 1.0},
      {"{type: regression, loss: huber, delta: 2}", 4.5 / 3}};
  EchoModel model;
  for (const auto& [yaml, wanted] : cases) {
    const auto task = build<Task>(yaml, numeric_targets());
    EXPECT_NEAR(task->loss(model, batch).item<double>(), wanted, 1e-6) << yaml;
    EXPECT_EQ(task->weight(batch), 3.0);
    EXPECT_EQ(task->evaluate(model, batch).output.dim(), 1);
  }
}

TEST(RegressionTest, LearnsStandardizedTargetsAndPredictsInUnitsOfTheData) {
  const Batch batch = numbered_batch(column({1, 2, 6}), column({110, 130, 130}).flatten());
  EchoModel model;
  const auto task =
      build<Task>("{type: regression, target_mean: 100, target_std: 10}", numeric_targets());
  // The targets are 1, 3, 3 in units of the deviation.
  EXPECT_NEAR(task->loss(model, batch).item<double>(), 10.0 / 3, 1e-6);
  const Evaluation result = task->evaluate(model, batch);
  EXPECT_NEAR(result.loss.item<double>(), 10.0 / 3, 1e-6);
  EXPECT_TRUE(result.output.equal(column({110, 120, 160}).flatten()));
}

TEST(RegressionTest, NeverBroadcastsTheOutputOntoTheTargets) {
  const Batch batch = numbered_batch(column({1, 2, 6}), column({1, 3, 3}).expand({3, 2}));
  EchoModel model;
  try {
    build<Task>("regression", numeric_targets())->loss(model, batch);
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "the model's output is [3, 1], but the targets are [3, 2]");
  }
}

TEST(RegressionTest, RefusesClassLabels) {
  TaskContext context = numeric_targets();
  context.data.target_type = DType::kI64;
  EXPECT_EQ(complaint<Task>("regression", context),
            "the task 'regression' wants F32 numbers, but the targets of the data are I64 []");
}

}  // namespace
}  // namespace accel::regression_test
