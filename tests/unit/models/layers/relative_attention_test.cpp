// Relative positions of DeBERTa: rows of their table, and what the terms do.
#include "models/layers/relative_attention.h"

#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

namespace accel::relative_attention_test {
namespace {

std::vector<int64_t> numbers(const at::Tensor& x) {
  const at::Tensor flat = x.contiguous();
  return {flat.const_data_ptr<int64_t>(), flat.const_data_ptr<int64_t>() + flat.numel()};
}

TEST(RelativeAttentionTest, BucketsAreThoseOfTransformers) {
  RelativeOptions options;
  options.buckets = 8;
  const RelativePass pass = relative_pass(options, 32, 40, at::zeros({16, 4}));
  // make_log_bucket_position(arange(40), 8, 32) + 8, clamped.
  const std::vector<int64_t> after = {8,  9,  10, 11, 12, 13, 13, 13, 14, 14, 14, 14, 14, 14,
                                      14, 14, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15,
                                      15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15, 15};
  EXPECT_EQ(numbers(pass.key_rows.select(1, 0)), after);
  const std::vector<int64_t> before = {8, 7, 6, 5, 4, 3, 3, 3, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1, 1, 1,
                                       1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(numbers(pass.key_rows.select(0, 0)), before);
  EXPECT_EQ(numbers(pass.query_rows.select(0, 0)), after);
}

TEST(RelativeAttentionTest, WithoutBucketsEachDistanceHasARow) {
  RelativeOptions options;
  options.buckets = 0;
  options.max_distance = {3};
  EXPECT_EQ(options.span(32), 3);
  const RelativePass pass = relative_pass(options, 32, 5, at::zeros({6, 4}));
  EXPECT_EQ(numbers(pass.key_rows.select(1, 0)), (std::vector<int64_t>{3, 4, 5, 5, 5}));
  EXPECT_EQ(numbers(pass.key_rows.select(0, 0)), (std::vector<int64_t>{3, 2, 1, 0, 0}));
}

TEST(RelativeAttentionTest, OutputsDependOnTheOrderByEachTerm) {
  AdaptedLinear query(8, 8), key(8, 8), value(8, 8), terms(8, 8);
  const SelfAttention by = {*query, *key, *value, 2, 0.0};
  RelativeOptions options;
  options.buckets = 0;
  const at::Tensor x = at::randn({1, 5, 8});
  const RelativePass pass = relative_pass(options, 5, 5, at::randn({10, 8}).mul(9));
  const auto differs = [&](AdaptedLinearImpl* of_key, AdaptedLinearImpl* of_query) {
    const RelativeTerms both = {of_key, of_query, 0.0};
    const at::Tensor y = disentangled_attention(by, both, x, {}, pass);
    const at::Tensor turned = disentangled_attention(by, both, x.flip(1), {}, pass).flip(1);
    return !turned.allclose(y, 1e-4, 1e-5);
  };
  EXPECT_FALSE(differs(nullptr, nullptr));
  EXPECT_TRUE(differs(&*terms, nullptr));
  EXPECT_TRUE(differs(nullptr, &*terms));
}

}  // namespace
}  // namespace accel::relative_attention_test
