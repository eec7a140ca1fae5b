// Labels that tasks sample from the model's own outputs.
#include "models/layers/sampled_labels.h"

#include <ATen/ops/allclose.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log_softmax.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/api/targets.h"
#include "core/api/task.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/optim/golden.h"
#include "tests/unit/train/tasks/fake_models.h"

namespace accel::sampled_labels_test {
namespace {

constexpr int64_t kOut = kIgnoredTarget;

at::Tensor floats(const std::vector<double>& values) {
  return at::tensor(values, at::kFloat);
}

std::vector<int64_t> integers_of(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

/// Logits of the probabilities 1/4, 1/2 and 1/4, in each of `rows` rows.
at::Tensor quarters(int64_t rows) {
  return floats({0, std::log(2.0), 0}).expand({rows, 3});
}

TEST(SampledLabelsTest, TheNumberFallsIntoTheIntervalOfItsClass) {
  const at::Tensor uniform = floats({0, 0.2, 0.3, 0.7, 0.8, 0.999});
  const at::Tensor targets = at::zeros({6}, at::kLong);
  EXPECT_EQ(integers_of(sample_labels(quarters(6), targets, uniform)),
            (std::vector<int64_t>{0, 0, 1, 1, 2, 2}));
}

TEST(SampledLabelsTest, MaskedTargetsStayMasked) {
  const at::Tensor targets = at::tensor(std::vector<int64_t>{kOut, 0, kOut}, at::kLong);
  EXPECT_EQ(integers_of(sample_labels(quarters(3), targets, floats({0.9, 0.9, 0.1}))),
            (std::vector<int64_t>{kOut, 2, kOut}));
}

TEST(SampledLabelsTest, AClassWithoutProbabilityIsNeverSampled) {
  constexpr double kNever = -std::numeric_limits<double>::infinity();
  const at::Tensor logits = floats({kNever, 0, kNever, 0, kNever}).expand({3, 5});
  const double most = 1 - std::ldexp(1.0, -24);  // of uniform_()
  EXPECT_EQ(integers_of(sample_labels(logits, at::zeros({3}, at::kLong), floats({0, 0.5, most}))),
            (std::vector<int64_t>{1, 3, 3}));
}

TEST(SampledLabelsTest, DrawsBelongToSeedStepAndSample) {
  const at::Tensor like = at::zeros({1});
  const std::vector<int64_t> both = {7, 3}, one = {3};
  const at::Tensor found = LabelDraws(1, 5, both).uniform(4, like);
  EXPECT_TRUE(at::equal(found.narrow(0, 4, 4), LabelDraws(1, 5, one).uniform(4, like)));
  EXPECT_TRUE(at::equal(found.narrow(0, 4, 2), LabelDraws(1, 5, one).uniform(2, like)));
  EXPECT_FALSE(at::equal(found.narrow(0, 0, 4), found.narrow(0, 4, 4)));
  EXPECT_FALSE(at::equal(found, LabelDraws(1, 6, both).uniform(4, like)));
  EXPECT_FALSE(at::equal(found, LabelDraws(2, 5, both).uniform(4, like)));
}

TEST(SampledLabelsTest, LabelsHaveTheProbabilitiesOfTheModel) {
  constexpr int64_t kRows = 20000;
  const std::vector<int64_t> sample = {0};
  const at::Tensor uniform = LabelDraws(0, 1, sample).uniform(kRows, at::zeros({1}));
  const at::Tensor labels = sample_labels(quarters(kRows), at::zeros({kRows}, at::kLong), uniform);
  const std::vector<int64_t> counts = integers_of(at::bincount(labels, {}, 3));
  const std::vector<double> wanted = {0.25, 0.5, 0.25};
  for (size_t i = 0; i < wanted.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(counts[i]) / kRows, wanted[i], 0.015) << i;
  }
}

/// The mean of -log p of the labels that draws of seed 4 and step 9 give, written out.
double expected_loss(const at::Tensor& logits, const Batch& batch) {
  const at::Tensor targets = batch.targets.flatten();
  const at::Tensor uniform =
      LabelDraws(4, 9, batch.ids).uniform(targets.numel() / batch.size(), targets);
  const std::vector<int64_t> labels = integers_of(sample_labels(logits, targets, uniform));
  const at::Tensor scores = at::log_softmax(logits, 1);
  double sum = 0, count = 0;
  for (size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == kOut) continue;
    sum -= scores[static_cast<int64_t>(i)][labels[i]].item<double>();
    ++count;
  }
  return sum / count;
}

double sampled_loss(const Task& task, Model& model, const Batch& batch) {
  const LabelDraws draws(4, 9, batch.ids);
  return dynamic_cast<const SamplesLabels&>(task).sampled_loss(model, batch, draws).item<double>();
}

TEST(SampledLabelsTest, ClassesOfSamples) {
  TaskContext context;
  context.data.classes = 3;
  const at::Tensor logits = golden_fill({40, 3}, 1).mul(3);
  const Batch batch = numbered_batch(logits, at::zeros({40}, at::kLong));
  EchoModel model;
  const auto task = build<Task>("{type: classification, label_smoothing: 0.5}", context);
  EXPECT_NEAR(sampled_loss(*task, model, batch), expected_loss(logits, batch), 1e-5);
  EXPECT_GT(sampled_loss(*task, model, batch), 0);
}

TEST(SampledLabelsTest, ClassesOfPixels) {
  TaskContext context;
  context.data.classes = 3;
  const at::Tensor logits = golden_fill({4, 3, 2, 2}, 1).mul(3);
  const Batch batch = numbered_batch(logits, at::zeros({4, 2, 2}, at::kLong));
  EchoModel model;
  const auto task = build<Task>("classification", context);
  EXPECT_NEAR(sampled_loss(*task, model, batch),
              expected_loss(logits.movedim(1, 3).reshape({16, 3}), batch), 1e-5);
}

TEST(SampledLabelsTest, ClassWeightsPreventThem) {
  TaskContext context;
  context.data.classes = 2;
  const auto reason = [&](const char* yaml) {
    const auto task = build<Task>(yaml, context);
    return dynamic_cast<const SamplesLabels&>(*task).prevents_sampling();
  };
  EXPECT_EQ(reason("classification"), "");
  EXPECT_EQ(reason("{type: classification, class_weights: [1, 3]}"), "class_weights");
}

/// Two texts of 8 tokens, some of them masked.
Batch texts() {
  const at::Tensor tokens = at::tensor(std::vector<int64_t>{0, 1, 2, 3, 4, 3, 2, 1}, at::kLong);
  const at::Tensor targets =
      at::tensor(std::vector<int64_t>{1, kOut, 3, 4, kOut, 2, 1, 0}, at::kLong);
  return numbered_batch(tokens.expand({2, 8}).contiguous(), targets.expand({2, 8}).contiguous());
}

TaskContext of_tokens(int64_t vocab) {
  TaskContext context;
  context.data = {.input = {8}, .input_type = DType::kI64, .target = {8}, .vocab = vocab};
  return context;
}

TEST(SampledLabelsTest, NextTokensInChunksOfAnySize) {
  const Batch batch = texts();
  const at::Tensor embedding = golden_fill({5, 4}, 2), head = golden_fill({5, 4}, 3).mul(4);
  TableModel model(embedding, head);
  const double wanted = expected_loss(model.forward(batch.inputs).flatten(0, 1), batch);
  for (const char* yaml :
       {"causal_lm", "{type: causal_lm, chunk: 3}", "{type: causal_lm, chunk: 1}"}) {
    EXPECT_NEAR(sampled_loss(*build<Task>(yaml, of_tokens(5)), model, batch), wanted, 1e-5) << yaml;
  }
}

TEST(SampledLabelsTest, TokensWithoutATargetHaveNoLoss) {
  Batch batch = texts();
  batch.targets.fill_(kOut);
  TableModel model(golden_fill({5, 4}, 2), golden_fill({5, 4}, 3));
  EXPECT_EQ(sampled_loss(*build<Task>("causal_lm", of_tokens(5)), model, batch), 0);
}

TEST(SampledLabelsTest, TokensOfMasksAndTags) {
  const at::Tensor scores = golden_fill({2, 8, 5}, 4).mul(3);
  Batch batch = texts();
  batch.inputs = scores;
  EchoModel model;
  const double wanted = expected_loss(scores.flatten(0, 1), batch);
  EXPECT_NEAR(sampled_loss(*build<Task>("masked_lm", of_tokens(5)), model, batch), wanted, 1e-5);
  TaskContext tags = of_tokens(5);
  tags.data.classes = 5;
  EXPECT_NEAR(sampled_loss(*build<Task>("token_classification", tags), model, batch), wanted, 1e-5);
}

}  // namespace
}  // namespace accel::sampled_labels_test
