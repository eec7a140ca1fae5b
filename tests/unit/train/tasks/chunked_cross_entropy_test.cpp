// Chunked cross-entropy: the numbers of the plain one in a fraction of its memory.
#include "train/tasks/chunked_cross_entropy.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include "core/api/targets.h"
#include "tests/unit/memory_meter.h"

namespace accel::chunked_cross_entropy_test {
namespace {

/// The same numbers each time: unseeded, the generator begins elsewhere in every process.
VocabularyHead random_head(int64_t tokens, int64_t vocab, int64_t width) {
  at::manual_seed(1);
  const auto numbers = at::TensorOptions().dtype(at::kFloat);
  VocabularyHead head = {at::randn({tokens, width}, numbers), at::randn({vocab, width}, numbers),
                         at::randint(vocab, {tokens}, at::TensorOptions().dtype(at::kLong))};
  head.targets.narrow(0, 3, 5).fill_(kIgnoredTarget);
  head.hidden.requires_grad_();
  head.weight.requires_grad_();
  head.bias = at::randn({vocab}, numbers).requires_grad_();
  return head;
}

at::Tensor plain_loss(const VocabularyHead& head) {
  at::Tensor logits = at::linear(head.hidden, head.weight, head.bias).to(at::kFloat);
  if (head.softcap > 0) logits = logits.div(head.softcap).tanh().mul(head.softcap);
  return at::cross_entropy_loss(logits, head.targets);
}

struct LossAndGradients {
  at::Tensor loss, hidden, weight, bias;
};

template <class Loss>
LossAndGradients differentiate(const VocabularyHead& head, Loss loss_of) {
  head.hidden.mutable_grad().reset();
  head.weight.mutable_grad().reset();
  if (head.bias.defined()) head.bias.mutable_grad().reset();
  const at::Tensor loss = loss_of(head);
  loss.mul(0.5).backward();
  return {loss.detach(), head.hidden.grad(), head.weight.grad(),
          head.bias.defined() ? head.bias.grad() : at::zeros({1})};
}

void expect_close(const LossAndGradients& a, const LossAndGradients& b, double tolerance) {
  EXPECT_LE(a.loss.sub(b.loss).abs().item<double>(), tolerance);
  EXPECT_LE(a.hidden.sub(b.hidden).abs().max().item<double>(), tolerance);
  EXPECT_LE(a.weight.sub(b.weight).abs().max().item<double>(), tolerance);
  EXPECT_LE(a.bias.sub(b.bias).abs().max().item<double>(), tolerance);
}

TEST(ChunkedCrossEntropyTest, EqualsThePlainLossAndItsGradients) {
  VocabularyHead head = random_head(50, 31, 8);
  for (const double softcap : {0.0, 2.5}) {
    head.softcap = softcap;
    const LossAndGradients plain = differentiate(head, plain_loss);
    for (const int64_t chunk : {1, 7, 25, 50, 1000}) {
      expect_close(
          plain,
          differentiate(head,
                        [&](const VocabularyHead& h) { return chunked_cross_entropy(h, chunk); }),
          1e-6);
    }
  }
}

TEST(ChunkedCrossEntropyTest, LogProbabilitiesOfCappedLogitsHaveTheirGradients) {
  VocabularyHead head = random_head(20, 31, 8);
  head.softcap = 1.5;
  head.bias = at::Tensor();
  head.targets.fill_(4);
  const auto mean = [](const at::Tensor& scores) { return scores.mean().neg(); };
  expect_close(
      differentiate(head, plain_loss),
      differentiate(head, [&](const VocabularyHead& h) { return mean(chunked_log_probs(h, 7)); }),
      1e-6);
}

TEST(ChunkedCrossEntropyTest, ObeysAutocast) {
  const VocabularyHead head = random_head(50, 31, 8);
  at::autocast::set_autocast_enabled(at::kCPU, true);
  at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
  const LossAndGradients plain = differentiate(head, plain_loss);
  const LossAndGradients chunked =
      differentiate(head, [](const VocabularyHead& h) { return chunked_cross_entropy(h, 7); });
  at::autocast::set_autocast_enabled(at::kCPU, false);
  at::autocast::clear_cache();
  EXPECT_LE(plain.loss.sub(chunked.loss).abs().item<double>(), 1e-6);
  expect_close(plain, chunked, 1e-3);
  EXPECT_EQ(chunked.weight.scalar_type(), at::kFloat);
}

TEST(ChunkedCrossEntropyTest, ScoresAsItLearns) {
  const VocabularyHead head = random_head(50, 31, 8);
  const ScoredTokens scored = score_by_chunks(head, 7);
  EXPECT_LE(scored.loss.sub(plain_loss(head)).abs().item<double>(), 1e-6);
  EXPECT_TRUE(scored.predicted.equal(at::linear(head.hidden, head.weight, head.bias).argmax(1)));
  EXPECT_FALSE(scored.loss.requires_grad());
}

TEST(ChunkedCrossEntropyTest, HoldsTheLogitsOfOneChunkAtATime) {
  const VocabularyHead head = random_head(2048, 2000, 4);
  const int64_t logit_bytes = int64_t{2048} * 2000 * 4;
  const auto peak_of = [&](auto loss_of) {
    return memory_of([&] { differentiate(head, loss_of); }).peak();
  };
  EXPECT_GE(peak_of(plain_loss), 2 * logit_bytes);
  EXPECT_LE(peak_of([](const VocabularyHead& h) { return chunked_cross_entropy(h, 64); }),
            logit_bytes / 8);
}

}  // namespace
}  // namespace accel::chunked_cross_entropy_test
