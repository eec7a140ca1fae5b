// Classification: smoothing, class weights and what does not fit.
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/api/task.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/tasks/fake_models.h"

namespace accel::classification_test {
namespace {

TaskContext image_labels(int64_t classes) {
  TaskContext context;
  context.data.input = {1, 8, 8};
  context.data.classes = classes;
  return context;
}

/// Two samples of two classes, labelled 0 and 1; the log-odds of class 1 are 1 and -2.
Batch two_samples() {
  const at::Tensor logits = at::tensor(std::vector<double>{0, 1, 2, 0}, at::kFloat).view({2, 2});
  return numbered_batch(logits, at::tensor(std::vector<int64_t>{0, 1}, at::kLong));
}

double nll(double log_odds_against) {
  return std::log1p(std::exp(log_odds_against));
}

double loss_of(const std::string& yaml, const Batch& batch) {
  EchoModel model;
  return build<Task>(yaml, image_labels(2))->loss(model, batch).item<double>();
}

TEST(ClassificationTest, LossIsTheMeanCrossEntropy) {
  EXPECT_NEAR(loss_of("classification", two_samples()), (nll(1) + nll(2)) / 2, 1e-6);
}

TEST(ClassificationTest, SmoothingSpreadsTheTarget) {
  const double smooth = (0.9 * nll(1) + 0.1 * nll(-1) + 0.9 * nll(2) + 0.1 * nll(-2)) / 2;
  EXPECT_NEAR(loss_of("{type: classification, label_smoothing: 0.2}", two_samples()), smooth, 1e-6);
}

TEST(ClassificationTest, ClassWeightsCountInTheLossAndTheWeight) {
  const std::string yaml = "{type: classification, class_weights: [1, 3]}";
  const auto task = build<Task>(yaml, image_labels(2));
  EXPECT_EQ(task->weight(two_samples()), 4.0);
  EXPECT_NEAR(loss_of(yaml, two_samples()), (nll(1) + 3 * nll(2)) / 4, 1e-6);
}

TEST(ClassificationTest, PartsOfABatchAddUpToTheWhole) {
  const auto task = build<Task>("{type: classification, class_weights: [1, 3]}", image_labels(2));
  const Batch whole = two_samples();
  EchoModel model;
  double sum = 0, weight = 0;
  for (int64_t i = 0; i < 2; ++i) {
    const Batch part = numbered_batch(whole.inputs.narrow(0, i, 1), whole.targets.narrow(0, i, 1));
    sum += task->loss(model, part).item<double>() * task->weight(part);
    weight += task->weight(part);
  }
  EXPECT_NEAR(sum / weight, task->loss(model, whole).item<double>(), 1e-6);
}

TEST(ClassificationTest, HalfPrecisionOutputIsScoredInF32) {
  EchoModel model;
  Batch batch = two_samples();
  batch.inputs = batch.inputs.to(at::kBFloat16);
  const Evaluation result = build<Task>("classification", image_labels(2))->evaluate(model, batch);
  EXPECT_EQ(result.loss.scalar_type(), at::kFloat);
  EXPECT_EQ(result.output.scalar_type(), at::kFloat);
}

TEST(ClassificationTest, EvaluationGivesLogitsForItsMetrics) {
  EchoModel model;
  const auto task = build<Task>("classification", image_labels(2));
  const Evaluation result = task->evaluate(model, two_samples());
  EXPECT_TRUE(result.output.equal(two_samples().inputs));
  EXPECT_EQ(task->default_metrics(), (std::vector<std::string>{"accuracy"}));
  EXPECT_EQ(task->metrics(), (std::vector<std::string>{"accuracy", "top_k", "f1",
                                                       "matthews_correlation", "roc_auc"}));
}

TEST(ClassificationTest, RefusesAWrongNumberOfClassWeights) {
  EXPECT_EQ(complaint<Task>("{type: classification, class_weights: [1, 2]}", image_labels(10)),
            "'class_weights' has 2 numbers, but the data has 10 classes");
}

TEST(ClassificationTest, RefusesNumbersAsTargets) {
  TaskContext context = image_labels(0);
  context.data.target_type = DType::kF32;
  context.data.target = {3};
  EXPECT_EQ(complaint<Task>("classification", context),
            "the task 'classification' wants I64 class labels, but the targets of the data are "
            "F32 [3]");
}

TEST(ClassificationTest, RefusesScoresOfEveryToken) {
  EchoModel model;
  const Batch batch = numbered_batch(at::zeros({2, 5, 7}), two_samples().targets);
  try {
    build<Task>("classification", image_labels(2))->loss(model, batch);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the task 'classification' wants scores of classes for each target, but the "
                 "model's output is [2, 5, 7] and the targets are [2]");
  }
}

}  // namespace
}  // namespace accel::classification_test
