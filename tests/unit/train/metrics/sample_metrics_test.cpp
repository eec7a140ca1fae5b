// Correlations, R² and ROC AUC: values of scikit-learn 1.9 and scipy 1.17.
#include "train/metrics/sample_metric.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/api/targets.h"
#include "tests/unit/build_component.h"

namespace accel::sample_metrics_test {
namespace {

at::Tensor numbers(const std::vector<double>& values) {
  return at::tensor(values, at::kFloat);
}

at::Tensor labels(const std::vector<int64_t>& values) {
  return at::tensor(values, at::kLong);
}

MetricContext with_classes(int64_t classes) {
  MetricContext context;
  context.data.classes = classes;
  return context;
}

MetricContext with_numbers(Shape target) {
  MetricContext context;
  context.data.target = std::move(target);
  context.data.target_type = DType::kF32;
  return context;
}

void feed(Metric& metric, const at::Tensor& output, const at::Tensor& targets) {
  Batch batch;
  batch.targets = targets;
  batch.ids.resize(static_cast<size_t>(targets.size(0)));
  metric.update({output, batch, 0, static_cast<double>(batch.size())});
}

/// Of the samples whole, in two batches, and gathered as an evaluation does.
void expect_value(const std::string& name, const MetricContext& context, const at::Tensor& output,
                  const at::Tensor& targets, double wanted) {
  const int64_t half = targets.size(0) / 2, rest = targets.size(0) - half;
  const auto whole = build<Metric>(name, context), parts = build<Metric>(name, context),
             gathered = build<Metric>(name, context);
  feed(*whole, output, targets);
  feed(*parts, output.narrow(0, 0, half), targets.narrow(0, 0, half));
  feed(*parts, output.narrow(0, half, rest), targets.narrow(0, half, rest));
  std::vector<const Metric*> all = {whole.get(), parts.get()};
  if (auto* samples = dynamic_cast<SampleMetric*>(parts.get())) {
    const at::Tensor rows = samples->take_rows();
    EXPECT_FALSE(samples->take_rows().defined());
    EXPECT_TRUE(std::isnan(parts->values()[0].second)) << "it has forgotten them";
    samples->set_rows(rows);
    dynamic_cast<SampleMetric&>(*gathered).set_rows(rows);
    all.push_back(gathered.get());
    EXPECT_TRUE(parts->sums().empty());
  }
  for (const Metric* metric : all) {
    const auto values = metric->values();
    ASSERT_EQ(values.size(), 1U);
    EXPECT_EQ(values[0].first, name);
    if (std::isnan(wanted)) {
      EXPECT_TRUE(std::isnan(values[0].second)) << name;
    } else {
      EXPECT_NEAR(values[0].second, wanted, 1e-12) << name;
    }
    EXPECT_TRUE(metric->higher_is_better());
  }
}

const at::Tensor kPredicted = numbers({1, 2, 2, 4, 3.5, 0});
const at::Tensor kActual = numbers({1.5, 2, 1, 5, 5, -1});

TEST(SampleMetricsTest, CorrelationsAreThoseOfScipyAlsoOfEqualNumbers) {
  expect_value("pearson", with_numbers({}), kPredicted, kActual, 0.9546975857764572);
  expect_value("spearman", with_numbers({}), kPredicted, kActual, 0.8823529411764706);
  // Targets of one number in a dimension, and the output of a linear layer.
  expect_value("pearson", with_numbers({1}), kPredicted.view({6, 1}), kActual.view({6, 1}),
               0.9546975857764572);
  expect_value("spearman", with_numbers({}), numbers({1, 1}), numbers({1, 2}), std::nan(""));
}

TEST(SampleMetricsTest, R2IsThatOfScikitLearn) {
  expect_value("r2", with_numbers({}), kPredicted, kActual, 0.8026905829596412);
  expect_value("r2", with_numbers({2}), numbers({0, 2, -1, 2, 8, -5}).view({3, 2}),
               numbers({.5, 1, -1, 1, 7, -6}).view({3, 2}), 0.9368005266622779);
  expect_value("r2", with_numbers({}), numbers({3, 3}), numbers({3, 3}), 1);
  expect_value("r2", with_numbers({}), numbers({3, 4}), numbers({3, 3}), 0);
}

TEST(SampleMetricsTest, TheAreaOfTwoClassesCountsEqualScoresHalf) {
  const at::Tensor score = numbers({.25, .5, .5, .5, 1, -1, .75});
  const at::Tensor logits = at::cat({score.mul(-0.5).view({7, 1}), score.mul(0.5).view({7, 1})}, 1);
  const at::Tensor targets = labels({0, 1, 1, 0, 1, 0, 0});
  expect_value("roc_auc", with_classes(2), logits, targets, 0.75);
  // Probabilities that round to 1 are still ordered.
  expect_value("roc_auc", with_classes(2), logits.mul(1024), targets, 0.75);
  expect_value("roc_auc", with_classes(2), logits, labels({1, 1, 1, 1, 1, 1, 1}), std::nan(""));
}

const at::Tensor kLogits =
    numbers({3, 2, 1, 1, 3, 2, 1, 2, 3, 0, 1, 2, 2, 2, 2, 2, 2, 2, 0, 3, 1, 1, 0, 3}).view({8, 3});

TEST(SampleMetricsTest, TheAreaOfMoreClassesIsAMeanOfEachAgainstTheRest) {
  expect_value("roc_auc", with_classes(3), kLogits, labels({0, 2, 1, 1, 2, 0, 1, 2}),
               0.7083333333333334);
  // A fourth class that no sample has.
  const at::Tensor four = at::cat({kLogits, kLogits.narrow(1, 0, 1).sub(100)}, 1);
  expect_value("roc_auc", with_classes(4), four, labels({0, 2, 1, 1, 2, 0, 1, 2}),
               0.7083333333333334);
  const auto metric = build<Metric>("roc_auc", with_classes(3));
  feed(*metric, at::cat({kLogits, kLogits}),
       labels({0, 2, 1, 1, 2, 0, 1, 2, kIgnoredTarget, kIgnoredTarget, kIgnoredTarget,
               kIgnoredTarget, kIgnoredTarget, kIgnoredTarget, kIgnoredTarget, kIgnoredTarget}));
  EXPECT_NEAR(metric->values()[0].second, 0.7083333333333334, 1e-12);
}

TEST(SampleMetricsTest, TheAreaOfLabelsIsTheirMean) {
  expect_value("roc_auc", with_numbers({2}), numbers({.5, -1, .5, 2, 1, 0, -2, .5}).view({4, 2}),
               numbers({1, 0, 0, 1, 1, 1, 0, 0}).view({4, 2}), 0.8125);
}

TEST(SampleMetricsTest, MatthewsCorrelationIsThatOfScikitLearn) {
  expect_value("matthews_correlation", with_classes(3), labels({0, 1, 2, 2, 0, 0, 1, 2}),
               labels({0, 2, 1, 1, 2, 0, 1, 2}), 0.2619047619047619);
  expect_value("matthews_correlation", with_classes(2), labels({1, 0, 1, 1}), labels({1, 1, 1, 0}),
               -1.0 / 3);
  expect_value("matthews_correlation", with_classes(2), labels({1, 1}), labels({1, 0}), 0);
}

TEST(SampleMetricsTest, NumbersThatAreNotFiniteMakeNoValue) {
  expect_value("spearman", with_numbers({}), numbers({1, std::nan(""), std::nan("")}),
               numbers({1, 2, 3}), std::nan(""));
  expect_value("roc_auc", with_classes(2), numbers({1, 0, std::nan(""), 1, 0, 0}).view({3, 2}),
               labels({0, 1, 0}), std::nan(""));
  expect_value("pearson", with_numbers({}), numbers({1, std::nan("")}), numbers({1, 2}),
               std::nan(""));
}

TEST(SampleMetricsTest, OtherDataIsRefused) {
  EXPECT_EQ(complaint<Metric>("pearson", with_numbers({3})),
            "the metric 'pearson' needs one number per sample, but the data has 3");
  EXPECT_EQ(complaint<Metric>("spearman", with_numbers({2, 2})),
            "the metric 'spearman' needs one number per sample, but the data has 4");
  EXPECT_EQ(complaint<Metric>("roc_auc", with_numbers({})),
            "the metric 'roc_auc' needs classes, but the data has none");
}

}  // namespace
}  // namespace accel::sample_metrics_test
