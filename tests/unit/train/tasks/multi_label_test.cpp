// Multi-label classification: the loss and thresholds.
#include "train/tasks/multi_label.h"

#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/api/task.h"
#include "core/base/error.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/tasks/fake_models.h"

namespace accel::multi_label_task_test {
namespace {

DataShape two_labels() {
  DataShape data;
  data.input = {2};
  data.target = {2};
  data.target_type = DType::kF32;
  data.labels = {"a", "b"};
  return data;
}

at::Tensor rows(const std::vector<double>& values) {
  return at::tensor(values, at::kFloat).view({-1, 2});
}

double softplus(double x) {
  return std::log1p(std::exp(x));
}

std::string of_task(const std::string& options) {
  return "{type: multi_label_classification" + options + "}";
}

std::unique_ptr<Task> task(const std::string& options) {
  return build<Task>(of_task(options), TaskContext{two_labels()});
}

std::string refusal(const std::string& options) {
  return complaint<Task>(of_task(options), TaskContext{two_labels()});
}

TEST(MultiLabelTaskTest, TheLossIsBinaryCrossEntropyOfEachLabel) {
  const Batch batch = numbered_batch(rows({1, -2, 0.5, 3}), rows({1, 0, 0, 1}));
  EchoModel model;
  const double wanted = (softplus(-1) + softplus(-2) + softplus(0.5) + softplus(-3)) / 4;
  EXPECT_NEAR(task("")->loss(model, batch).item<double>(), wanted, 1e-6);
  const double weighted = (2 * softplus(-1) + softplus(-2) + softplus(0.5) + 3 * softplus(-3)) / 4;
  EXPECT_NEAR(task(", pos_weight: [2, 3]")->loss(model, batch).item<double>(), weighted, 1e-6);
  EXPECT_EQ(task("")->weight(batch), 2.0);
}

TEST(MultiLabelTaskTest, ThresholdsDecideOnLabels) {
  const Batch batch = numbered_batch(rows({1, 1}), rows({1, 0}));  // probability 0.73
  EchoModel model;
  const at::Tensor output = task(", threshold: [0.7, 0.8]")->evaluate(model, batch).output;
  EXPECT_GT(output[0][0].item<double>(), 0);
  EXPECT_LT(output[0][1].item<double>(), 0);
  EXPECT_EQ(MultiLabelOptions().thresholds(3), (std::vector<double>{0.5, 0.5, 0.5}));
  EXPECT_EQ(refusal(", threshold: [0.1, 0.2, 0.3]"),
            "'threshold' has 3 numbers, but the data has 2 labels");
  EXPECT_EQ(refusal(", pos_weight: [1]"), "'pos_weight' has 1 numbers, but the data has 2 labels");
}

TEST(MultiLabelTaskTest, OtherTargetsAreRefused) {
  EchoModel model;
  const Batch batch = numbered_batch(rows({1, 1}), rows({1, 3}));
  try {
    task("")->loss(model, batch);
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "a target of multi-label classification is not between 0 and 1");
  }
  DataShape classes = two_labels();
  classes.target = {};
  classes.target_type = DType::kI64;
  EXPECT_EQ(
      complaint<Task>("multi_label_classification", TaskContext{classes}),
      "the task 'multi_label_classification' wants F32 numbers of 0 or 1 for each label, but the "
      "targets of the data are I64 []");
}

}  // namespace
}  // namespace accel::multi_label_task_test
