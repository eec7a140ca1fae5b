// Every metric on small hand-made batches, whole and in parts.
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/api/metric.h"
#include "tests/unit/build_component.h"

namespace accel::metrics_test {
namespace {

using Values = std::vector<std::pair<std::string, double>>;

MetricContext with_classes(int64_t classes) {
  MetricContext context;
  context.data.classes = classes;
  return context;
}

at::Tensor labels(std::vector<int64_t> values) {
  return at::tensor(values, at::kLong);
}

Batch batch_of(const at::Tensor& targets) {
  Batch batch;
  batch.targets = targets;
  batch.ids.resize(static_cast<size_t>(targets.size(0)));
  return batch;
}

void feed(Metric& metric, const at::Tensor& output, const at::Tensor& targets, double loss = 0) {
  const Batch batch = batch_of(targets);
  metric.update({output, batch, loss, static_cast<double>(batch.size())});
}

/// Four samples of three classes; the likeliest are 0, 1, 2, 2.
at::Tensor logits() {
  return at::tensor(std::vector<double>{3, 2, 1, 1, 3, 2, 1, 2, 3, 0, 1, 2}, at::kFloat)
      .view({4, 3});
}

void expect_values(const Metric& metric, const Values& wanted) {
  const Values values = metric.values();
  ASSERT_EQ(values.size(), wanted.size());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(values[i].first, wanted[i].first);
    EXPECT_NEAR(values[i].second, wanted[i].second, 1e-12) << values[i].first;
  }
}

TEST(AccuracyTest, CountsTheLikeliestClass) {
  const auto metric = build<Metric>("accuracy");
  feed(*metric, logits(), labels({0, 1, 2, 0}));
  expect_values(*metric, {{"accuracy", 0.75}});
  EXPECT_TRUE(metric->higher_is_better());
}

TEST(AccuracyTest, LeavesUncountedTokensOut) {
  const auto metric = build<Metric>("accuracy");
  feed(*metric, labels({5, 6, 7, 8}).view({2, 2}), labels({5, -100, 0, 8}).view({2, 2}));
  expect_values(*metric, {{"accuracy", 2.0 / 3}});
}

TEST(MetricTest, SumsOfTwoRanksAddUp) {
  for (const char* type : {"accuracy", "{type: top_k, k: [1, 2]}", "f1", "perplexity"}) {
    const auto whole = build<Metric>(type, with_classes(3));
    const auto a = build<Metric>(type, with_classes(3));
    const auto b = build<Metric>(type, with_classes(3));
    const at::Tensor targets = labels({0, 1, 2, 0});
    feed(*whole, logits(), targets, 1.5);
    feed(*a, logits().narrow(0, 0, 1), targets.narrow(0, 0, 1), 1.5);
    feed(*b, logits().narrow(0, 1, 3), targets.narrow(0, 1, 3), 1.5);
    for (size_t i = 0; i < a->sums().size(); ++i) a->sums()[i] += b->sums()[i];
    expect_values(*a, whole->values());
  }
}

TEST(MetricTest, ZeroSumsStartOver) {
  const auto metric = build<Metric>("accuracy");
  feed(*metric, logits(), labels({1, 2, 0, 0}));
  metric->sums().assign(metric->sums().size(), 0);
  feed(*metric, logits(), labels({0, 1, 2, 2}));
  expect_values(*metric, {{"accuracy", 1.0}});
}

TEST(TopKTest, NamesOneValueForEachK) {
  const auto metric = build<Metric>("{type: top_k, k: [1, 2, 3]}", with_classes(3));
  feed(*metric, logits(), labels({0, 2, 0, 0}));
  expect_values(*metric, {{"top_1", 0.25}, {"top_2", 0.5}, {"top_3", 1.0}});
}

TEST(TopKTest, RefusesMoreGuessesThanClasses) {
  EXPECT_EQ(complaint<Metric>("top_k", with_classes(3)),
            "'k' of the metric 'top_k' is 5, but the data has 3 classes");
}

TEST(F1Test, AveragesAsScikitLearnDoes) {
  const at::Tensor choices = labels({0, 1, 2, 2, 1, 0, 2});
  const at::Tensor targets = labels({0, 1, 2, 0, 2, 0, 1});
  const std::pair<const char*, double> cases[] = {
      {"{type: f1, average: macro}", (0.8 + 0.5 + 0.4) / 3},
      {"{type: f1, average: micro}", 4.0 / 7}};
  for (const auto& [type, wanted] : cases) {
    const auto metric = build<Metric>(type, with_classes(3));
    feed(*metric, choices, targets);
    expect_values(*metric, {{"f1", wanted}});
  }
}

TEST(F1Test, MacroLeavesOutClassesNeverMet) {
  const auto metric = build<Metric>("f1", with_classes(9));
  feed(*metric, labels({0, 8, 8}), labels({0, 8, 0}));
  expect_values(*metric, {{"f1", 2.0 / 3}});
}

TEST(F1Test, BinaryScoresClassOne) {
  const auto metric = build<Metric>("{type: f1, average: binary}", with_classes(2));
  feed(*metric, labels({1, 1, 0, 0}), labels({1, 0, 1, 0}));
  expect_values(*metric, {{"f1", 0.5}});
  EXPECT_EQ(complaint<Metric>("{type: f1, average: binary}", with_classes(3)),
            "'average: binary' of the metric 'f1' needs 2 classes, but the data has 3");
}

TEST(F1Test, WantsClasses) {
  EXPECT_EQ(complaint<Metric>("f1"), "the metric 'f1' needs classes, but the data has none");
}

TEST(PerplexityTest, WeighsBatchesByTheirTokens) {
  const auto metric = build<Metric>("perplexity");
  const Batch batch = batch_of(labels({0}));
  const at::Tensor none;
  metric->update({none, batch, 2.0, 30});
  metric->update({none, batch, 1.0, 10});
  expect_values(*metric, {{"perplexity", std::exp(1.75)}});
  EXPECT_FALSE(metric->higher_is_better());
}

TEST(ExactMatchTest, OneWrongCountedTokenFailsTheSample) {
  const auto metric = build<Metric>("exact_match");
  feed(*metric, labels({1, 2, 3, 1, 2, 3, 1, 2, 3, 1, 2, 3}).view({4, 3}),
       labels({1, 2, 3, 1, -100, 3, 1, 2, 4, -100, -100, -100}).view({4, 3}));
  expect_values(*metric, {{"exact_match", 2.0 / 3}});
}

TEST(ErrorMetricsTest, AverageOverEveryNumber) {
  const at::Tensor targets = at::tensor(std::vector<double>{1, 2, 3, 4}, at::kFloat);
  const at::Tensor output = at::tensor(std::vector<double>{1, 4, 3, 1}, at::kFloat).view({4, 1});
  const auto mae = build<Metric>("mae");
  const auto mse = build<Metric>("mse");
  feed(*mae, output, targets);
  feed(*mse, output, targets);
  expect_values(*mae, {{"mae", 1.25}});
  expect_values(*mse, {{"mse", 3.25}});
}

}  // namespace
}  // namespace accel::metrics_test
