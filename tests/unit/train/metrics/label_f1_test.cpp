// F1 of several labels per sample.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include "core/api/metric.h"
#include "tests/unit/build_component.h"

namespace accel::label_f1_test {
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

TEST(LabelF1Test, CountsLabelsTogetherAndEach) {
  const auto metric = build<Metric>("label_f1", MetricContext{two_labels()});
  Batch batch;
  batch.targets = rows({1, 0, 1, 1, 0, 0});
  batch.ids.resize(3);
  const at::Tensor output = rows({2, 1, 2, -1, -1, -1});
  metric->update({output, batch, 0, 3});
  const std::vector<std::pair<std::string, double>> wanted = {{"f1_micro", 4.0 / 6},
                                                              {"f1_macro", 0.5},
                                                              {"subset_accuracy", 1.0 / 3},
                                                              {"f1_a", 1.0},
                                                              {"f1_b", 0.0}};
  const auto values = metric->values();
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_EQ(values[i].first, wanted[i].first);
    EXPECT_NEAR(values[i].second, wanted[i].second, 1e-12) << wanted[i].first;
  }
}

TEST(LabelF1Test, ALabelWithTheNameOfAnAverageIsRefused) {
  DataShape data = two_labels();
  data.labels = {"a", "micro"};
  EXPECT_EQ(complaint<Metric>("label_f1", MetricContext{data}),
            "the metric 'label_f1' has 'f1_micro' over all labels, and the data has a label "
            "'micro', whose F1 would have the same name");
  EXPECT_EQ(complaint<Metric>("{type: label_f1, per_label: false}", MetricContext{data}), "");
  data.labels = {"macro", "a"};
  EXPECT_EQ(complaint<Metric>("label_f1", MetricContext{data}),
            "the metric 'label_f1' has 'f1_macro' over all labels, and the data has a label "
            "'macro', whose F1 would have the same name");
}

TEST(LabelF1Test, ClassesAreRefused) {
  DataShape classes;
  classes.classes = 3;
  EXPECT_EQ(complaint<Metric>("label_f1", MetricContext{classes}),
            "the metric 'label_f1' wants 0 or 1 for each label");
}

}  // namespace
}  // namespace accel::label_f1_test
