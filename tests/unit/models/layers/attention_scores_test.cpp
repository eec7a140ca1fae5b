// Attention with a scale, a cap of its scores and a window, against the sum of its definition.
#include "kernels/attention_scores.h"

#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

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

TEST(AttentionScoresTest, FollowsTheDefinition) {
  const Heads x;
  for (const AttentionScores& scores :
       {AttentionScores(), AttentionScores{.scale = 0.3}, AttentionScores{.window = 3},
        AttentionScores{.softcap = 0.4}, AttentionScores{.scale = 2.0, .softcap = 0.7, .window = 2},
        AttentionScores{.window = 1}, AttentionScores{.window = kTokens + 3}}) {
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

}  // namespace
}  // namespace accel::attention_scores_test
