// Contrastive learning: the loss of pairs, and models and data it does not fit.
#include <ATen/ops/randn.h>
#include <ATen/ops/tensor.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/api/dual_encoder.h"
#include "core/api/task.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/tasks/fake_models.h"

namespace accel::contrastive_test {
namespace {

DataShape pairs() {
  DataShape data{.input = {3, 8, 8}, .target = {4}};
  data.vocab = 9;
  return data;
}

/// Its embeddings are given.
class FakeEncoder final : public DualEncoder {
 public:
  FakeEncoder(at::Tensor image, at::Tensor text, double scale)
      : pairs_{std::move(image), std::move(text)}, scale_(at::tensor(scale, at::kFloat)) {}

  PairEmbeddings embed(const Batch&) override { return pairs_; }
  at::Tensor scale() override { return scale_; }
  at::Tensor forward_batch(const Batch&) override { return {}; }
  torch::nn::Module& module() override { throw std::logic_error("a fake has no module"); }
  const char* default_task() const override { return "contrastive"; }

 private:
  PairEmbeddings pairs_;
  at::Tensor scale_;
};

/// -log of the share of `own` in the exponentials.
double entropy(double own, double other) {
  return std::log(std::exp(own) + std::exp(other)) - own;
}

TEST(ContrastiveTest, TheLossIsTheMeanOverTextsAndImages) {
  const auto task = build<Task>("contrastive", {pairs()});
  const at::Tensor image = at::tensor(std::vector<float>{1, 0, 0.6, 0.8}).view({2, 2});
  const at::Tensor text = at::tensor(std::vector<float>{0.8, 0.6, 0, 1}).view({2, 2});
  FakeEncoder model(image, text, 3.0);
  Batch batch;
  batch.ids = {0, 1};
  EXPECT_EQ(task->weight(batch), 2.0);
  // Similarities of image i and text j: {{0.8, 0}, {0.96, 0.8}}.
  const double texts = (entropy(2.4, 2.88) + entropy(2.4, 0)) / 2;
  const double images = (entropy(2.4, 0) + entropy(2.4, 2.88)) / 2;
  EXPECT_NEAR(task->loss(model, batch).item<double>(), (texts + images) / 2, 1e-6);
  const Evaluation evaluated = task->evaluate(model, batch);
  EXPECT_NEAR(evaluated.loss.item<double>(), (texts + images) / 2, 1e-6);
  EXPECT_TRUE(evaluated.output.select(1, 0).equal(image));
  EXPECT_TRUE(evaluated.output.select(1, 1).equal(text));
}

TEST(ContrastiveTest, BothDirectionsCount) {
  const auto task = build<Task>("contrastive", {pairs()});
  const at::Tensor image = at::tensor(std::vector<float>{1, 0, 1, 0}).view({2, 2});
  const at::Tensor text = at::tensor(std::vector<float>{1, 0, 0, 1}).view({2, 2});
  FakeEncoder model(image, text, 2.0);
  Batch batch;
  batch.ids = {0, 1};
  // Each text has the same similarity to both images; both images prefer the first text.
  const double texts = std::log(2.0), images = (entropy(2, 0) + entropy(0, 2)) / 2;
  EXPECT_NEAR(task->loss(model, batch).item<double>(), (texts + images) / 2, 1e-6);
}

TEST(ContrastiveTest, OtherModelsAndDataAreRefused) {
  const auto task = build<Task>("contrastive", {pairs()});
  EchoModel echo;
  try {
    task->loss(echo, Batch());
    ADD_FAILURE() << "a model of another kind";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "the task 'contrastive' needs a model of images and texts, which this one is not");
  }
  DataShape data = pairs();
  data.target = {};
  EXPECT_EQ(complaint<Task>("contrastive", {data}),
            "the task 'contrastive' needs an image and a text per sample, but a sample of the data "
            "is F32 [3, 8, 8] with the target I64 []");
  EXPECT_EQ(task->default_metrics(), std::vector<std::string>{"retrieval_recall"});
}

}  // namespace
}  // namespace accel::contrastive_test
