// Noise on embeddings: its size, its stream, its scope.
#include "models/layers/embedding_noise.h"

#include <ATen/ops/embedding.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>
#include <gtest/gtest.h>

#include <cmath>
#include <string>

#include <torch/nn/module.h>

#include "core/api/model.h"
#include "tests/unit/build_component.h"

namespace accel::embedding_noise_test {
namespace {

constexpr double kAlpha = 5;

at::Tensor drawn(int64_t step, const std::vector<int64_t>& samples, int64_t length = 40) {
  const EmbeddingNoise noise(kAlpha, step, samples);
  return noise.draw({static_cast<int64_t>(samples.size()), length, 10});
}

TEST(EmbeddingNoiseTest, IsUniformWithinAlphaOverTheRootOfLengthAndWidth) {
  const at::Tensor noise = drawn(1, {3, 4, 5});
  const double most = kAlpha / std::sqrt(400.0);
  EXPECT_LE(noise.abs().max().item<double>(), most);
  EXPECT_GT(noise.abs().max().item<double>(), 0.95 * most);
  EXPECT_NEAR(noise.mean().item<double>(), 0, 0.1 * most);
  EXPECT_NEAR(noise.square().mean().item<double>(), most * most / 3, 0.05 * most * most);
}

TEST(EmbeddingNoiseTest, IsAFunctionOfTheStepAndTheSample) {
  const at::Tensor noise = drawn(7, {3, 4});
  EXPECT_TRUE(drawn(7, {3, 4}).equal(noise));
  EXPECT_TRUE(drawn(7, {4})[0].equal(noise[1])) << "the rows beside it do not matter";
  EXPECT_FALSE(drawn(8, {3, 4}).equal(noise));
  EXPECT_FALSE(noise[0].equal(noise[1]));
}

TEST(EmbeddingNoiseTest, LeavesTheGeneratorOfOtherRandomNumbers) {
  at::manual_seed(3);
  const at::Tensor wanted = at::zeros({4}).uniform_();
  at::manual_seed(3);
  drawn(1, {1});
  EXPECT_TRUE(at::zeros({4}).uniform_().equal(wanted));
}

TEST(EmbeddingNoiseTest, IsAddedToEmbeddingsWhileTheScopeLives) {
  const at::Tensor table = at::zeros({6, 10}), tokens = at::zeros({2, 40}, at::kLong);
  const auto embedded = [&] { return with_embedding_noise(at::embedding(table, tokens)); };
  const std::vector<int64_t> samples = {3, 4};
  {
    const EmbeddingNoise noise(kAlpha, 7, samples);
    EXPECT_FALSE(noise.is_applied());
    EXPECT_TRUE(embedded().equal(drawn(7, samples)));
    EXPECT_TRUE(noise.is_applied());
  }
  EXPECT_TRUE(embedded().equal(at::zeros({2, 40, 10})));
}

/// The sum of the noise in each position, as the head of a Llama without weights sees it.
at::Tensor noise_at_the_head(const std::string& options) {
  ModelContext context;
  context.data = {.input = {6}, .input_type = DType::kI64, .vocab = 11};
  const auto model = build<Model>(
      "{type: llama, num_layers: 1, num_heads: 2, hidden_size: 16, tie_embeddings: false, "
      "norm_eps: 1.0e+6, " +
          options + "}",
      context);
  const at::NoGradGuard no_grad;
  for (const auto& item : model->module().named_parameters()) {
    item.value().fill_(item.key() == "lm_head.weight" || item.key() == "model.norm.weight" ? 1 : 0);
  }
  const std::vector<int64_t> samples = {3};
  const EmbeddingNoise noise(kAlpha, 7, samples);
  return model->forward(at::zeros({1, 6}, at::kLong)).select(2, 0).mul(1e3);
}

TEST(EmbeddingNoiseTest, IsNotScaledWithEmbeddings) {
  const std::vector<int64_t> samples = {3};
  const at::Tensor wanted = EmbeddingNoise(kAlpha, 7, samples).draw({1, 6, 16}).sum(2);
  EXPECT_TRUE(noise_at_the_head("scale_embeddings: false").allclose(wanted, 1e-4));
  EXPECT_TRUE(noise_at_the_head("scale_embeddings: true").allclose(wanted, 1e-4));
}

}  // namespace
}  // namespace accel::embedding_noise_test
