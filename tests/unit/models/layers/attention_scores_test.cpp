// Attention with a scale, a cap of its scores and a window, against the sum of its definition.
#include "kernels/attention_scores.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "kernels/choice.h"
#include "kernels/cpu_operators.h"
#include "kernels/few_rows.h"
#include "models/layers/decoding.h"

namespace accel::attention_scores_test {
namespace {

constexpr int64_t kTokens = 7, kWidth = 4;

struct Heads {
  at::Tensor query = at::randn({1, 2, kTokens, kWidth}), key = at::randn({1, 1, kTokens, kWidth}),
             value = at::randn({1, 1, kTokens, kWidth});
};

/// Causal, one token and head after the other.
at::Tensor defined(const Heads& x, const AttentionScores& scores) {
  at::Tensor out = at::zeros_like(x.query);
  for (int64_t head = 0; head < 2; ++head) {
    for (int64_t token = 0; token < kTokens; ++token) {
      const int64_t first = scores.window > 0 ? std::max<int64_t>(0, token - scores.window + 1) : 0;
      double sum = 0;
      at::Tensor mixed = at::zeros_like(x.value[0][0][0]);
      for (int64_t seen = first; seen <= token; ++seen) {
        double score = x.query[0][head][token].dot(x.key[0][0][seen]).item<double>() *
                       scores.scale.value_or(0.5);
        if (scores.softcap > 0) score = scores.softcap * std::tanh(score / scores.softcap);
        sum += std::exp(score);
        mixed += x.value[0][0][seen].mul(std::exp(score));
      }
      out[0][head][token].copy_(mixed.div(sum));
    }
  }
  return out;
}

const std::vector<AttentionScores> kScores = {{},
                                              {.scale = 0.3},
                                              {.window = 3},
                                              {.softcap = 0.4},
                                              {.scale = 2.0, .softcap = 0.7, .window = 2},
                                              {.window = 1},
                                              {.window = kTokens + 3}};

TEST(AttentionScoresTest, FollowsTheDefinition) {
  const Heads x;
  for (const AttentionScores& scores : kScores) {
    const at::Tensor wanted = defined(x, scores);
    const at::Tensor mask =
        scores.window > 0 ? window_mask(kTokens, scores.window, at::kCPU) : at::Tensor();
    const at::Tensor found =
        scored_attention({x.query, x.key, x.value, mask, !mask.defined()}, scores);
    EXPECT_TRUE(found.allclose(wanted, 1e-5, 1e-6)) << scores.window << " " << scores.softcap;
    for (const std::vector<int64_t>& parts :
         {std::vector<int64_t>(kTokens, 1), {3, 4}, {1, 5, 1}, {kTokens}}) {
      LayerCache cache;
      int64_t first = 0;
      for (const int64_t part : parts) {
        const auto some = [&](const at::Tensor& all) { return all.narrow(2, first, part); };
        const at::Tensor y = cache.attend(some(x.query), some(x.key), some(x.value), scores);
        EXPECT_TRUE(y.allclose(some(wanted), 1e-5, 1e-6)) << "from " << first << " on " << part;
        first += part;
      }
    }
  }
}

/// Rows of different lengths, one token of each at a time, by the kernel for single tokens.
TEST(AttentionScoresTest, SingleTokensOfGenerationFollowTheDefinition) {
  const at::NoGradGuard no_grad;
  const FewRowsScope scope;
  use_kernels(Kernels::kFused);
  const Heads a, b;
  constexpr int64_t kBefore = 3;  // tokens of the second row
  for (const AttentionScores& scores : kScores) {
    const at::Tensor first = defined(a, scores), second = defined(b, scores);
    LayerCache cache;
    cache.select({.first = 1, .rows = 2});
    cache.attend(b.query.narrow(2, 0, kBefore), b.key.narrow(2, 0, kBefore),
                 b.value.narrow(2, 0, kBefore), scores);
    cache.select({.first = 0, .rows = 2});
    for (int64_t token = 0; token + kBefore < kTokens; ++token) {
      const auto both = [&](const at::Tensor& of_a, const at::Tensor& of_b) {
        return at::cat({of_a.narrow(2, token, 1), of_b.narrow(2, token + kBefore, 1)});
      };
      const at::Tensor y =
          cache.attend(both(a.query, b.query), both(a.key, b.key), both(a.value, b.value), scores);
      EXPECT_TRUE(y.allclose(both(first, second), 1e-5, 1e-6))
          << "token " << token << " window " << scores.window << " softcap " << scores.softcap;
    }
    EXPECT_EQ(cache.length(0), kTokens - kBefore);
    EXPECT_EQ(cache.length(1), kTokens);
  }
  use_kernels(Kernels::kReference);
}

TEST(AttentionScoresTest, SingleTokensReadACacheInOtherTypes) {
  const at::NoGradGuard no_grad;
  const FewRowsScope scope;
  const Heads x;
  for (const CacheDtype dtype : {CacheDtype::kBf16, CacheDtype::kInt8}) {
    std::vector<at::Tensor> results;
    for (const Kernels by : {Kernels::kReference, Kernels::kFused}) {
      use_kernels(by);
      LayerCache cache;
      cache.select({.dtype = dtype});
      at::Tensor y;
      for (int64_t token = 0; token < kTokens; ++token) {
        const auto one = [&](const at::Tensor& all) { return all.narrow(2, token, 1); };
        y = cache.attend(one(x.query), one(x.key), one(x.value));
      }
      results.push_back(y);
    }
    EXPECT_TRUE(results[1].allclose(results[0], 1e-5, 1e-6)) << static_cast<int>(dtype);
  }
  use_kernels(Kernels::kReference);
}

}  // namespace
}  // namespace accel::attention_scores_test
