// Attention of single tokens over cached ones, beside that of whole tensors in float64.
#include "kernels/token_attention.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/randn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <string>
#include <vector>

#include "kernels/cpu_operators.h"
#include "kernels/few_rows.h"

namespace accel::token_attention_test {
namespace {

constexpr int64_t kRoom = 90;

/// Tokens behind those of a row are NaN.
CachedTokens drawn(int64_t heads, int64_t width, const std::vector<int64_t>& lengths,
                   at::ScalarType type) {
  const auto rows = static_cast<int64_t>(lengths.size());
  CachedTokens out = {at::randn({rows, heads, kRoom, width}), {}};
  if (type == at::kChar) {
    out.scales = out.states.abs().amax({-1}, true).div(127);
    out.states = out.states.div(out.scales).round().to(at::kChar);
  } else {
    out.states = out.states.to(type);
  }
  for (int64_t row = 0; row < rows; ++row) {
    const int64_t length = lengths[static_cast<size_t>(row)];
    const at::Tensor& poisoned = out.scales.defined() ? out.scales : out.states;
    poisoned.select(0, row)
        .narrow(1, length, kRoom - length)
        .fill_(std::numeric_limits<float>::quiet_NaN());
  }
  return out;
}

at::Tensor numbers(const CachedTokens& from) {
  const at::Tensor states = from.states.to(at::kDouble);
  return from.scales.defined() ? states.mul(from.scales.to(at::kDouble)) : states;
}

/// Of one row, [heads, 1, width] in float64.
at::Tensor reference(const at::Tensor& query, const TokenAttention& by, int64_t row) {
  const int64_t length = by.lengths[static_cast<size_t>(row)];
  const int64_t count = by.window > 0 ? std::min(by.window, length) : length;
  const int64_t repeats = query.size(1) / by.keys.states.size(1);
  const auto seen = [&](const CachedTokens& from) {
    const at::Tensor tokens = numbers(from).select(0, row).narrow(1, length - count, count);
    return tokens.repeat_interleave(repeats, 0);
  };
  at::Tensor scores = query.select(0, row).to(at::kDouble).matmul(seen(by.keys).transpose(1, 2));
  scores = scores.mul(by.scale);
  if (by.softcap > 0) scores = scores.div(by.softcap).tanh().mul(by.softcap);
  return scores.softmax(-1).matmul(seen(by.values));
}

class TokenAttentionTest : public testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override {
    at::manual_seed(3);
    use_kernels(Kernels::kFused);
  }
  void TearDown() override {
    use_kernels(Kernels::kReference);
    at::set_num_threads(1);
  }
};

TEST_P(TokenAttentionTest, ResultsAreThoseOfTheRowsThemselves) {
  const at::NoGradGuard no_grad;
  const FewRowsScope scope;
  const std::vector<int64_t> lengths = {1, 17, 90, 64};
  for (const auto& [heads, groups, width] :
       std::vector<std::array<int64_t, 3>>{{4, 4, 64}, {8, 2, 32}, {6, 1, 50}, {2, 2, 7}}) {
    const CachedTokens keys = drawn(groups, width, lengths, GetParam());
    const CachedTokens values = drawn(groups, width, lengths, GetParam());
    const at::Tensor query = at::randn({4, heads, 1, width});
    for (const int64_t window : {0, 5, 64}) {
      for (const double softcap : {0.0, 2.0}) {
        const TokenAttention by = {keys, values, lengths, window, 0.3, softcap};
        const at::Tensor out = token_attention(query, by);
        ASSERT_EQ(out.sizes(), query.sizes());
        for (int64_t row = 0; row < 4; ++row) {
          EXPECT_TRUE(
              out.select(0, row).to(at::kDouble).allclose(reference(query, by, row), 1e-5, 1e-6))
              << heads << " heads of " << width << ", row " << row << ", window " << window;
        }
      }
    }
  }
}

TEST_P(TokenAttentionTest, BitsDependNeitherOnThreadsNorOnOtherRows) {
  const at::NoGradGuard no_grad;
  const FewRowsScope scope;
  const std::vector<int64_t> lengths = {90, 33, 7, 90};
  const CachedTokens keys = drawn(4, 64, lengths, GetParam());
  const CachedTokens values = drawn(4, 64, lengths, GetParam());
  const at::Tensor query = at::randn({4, 16, 1, 64});
  const TokenAttention by = {keys, values, lengths, 0, 0.125, 0};
  const at::Tensor out = token_attention(query, by);
  at::set_num_threads(3);
  EXPECT_TRUE(token_attention(query, by).equal(out));
  const auto second = [](const CachedTokens& of) {
    return CachedTokens{of.states.narrow(0, 1, 1),
                        of.scales.defined() ? of.scales.narrow(0, 1, 1) : at::Tensor()};
  };
  const std::vector<int64_t> alone = {33};
  const TokenAttention of_row = {second(keys), second(values), alone, 0, 0.125, 0};
  EXPECT_TRUE(token_attention(query.narrow(0, 1, 1), of_row).equal(out.narrow(0, 1, 1)));
}

INSTANTIATE_TEST_SUITE_P(Types, TokenAttentionTest,
                         testing::Values(at::kFloat, at::kBFloat16, at::kChar),
                         [](const auto& of) { return std::string(at::toString(of.param)); });

TEST(TokenAttentionChoiceTest, TakesSingleTokensInTheScopeOnly) {
  use_kernels(Kernels::kFused);
  const at::NoGradGuard no_grad;
  const at::Tensor query = at::randn({2, 4, 1, 8});
  EXPECT_FALSE(takes_token_attention(query));
  {
    const FewRowsScope scope;
    EXPECT_TRUE(takes_token_attention(query));
    EXPECT_TRUE(takes_token_attention(query.to(at::kBFloat16)));
    EXPECT_FALSE(takes_token_attention(query.to(at::kHalf)));
    EXPECT_FALSE(takes_token_attention(at::randn({2, 4, 2, 8})));
    use_kernels(Kernels::kReference);
    EXPECT_FALSE(takes_token_attention(query));
  }
  use_kernels(Kernels::kReference);
}

}  // namespace
}  // namespace accel::token_attention_test
