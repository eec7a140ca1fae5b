// Hiding tokens that a model is to guess.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/api/dataset.h"
#include "core/api/targets.h"
#include "core/base/error.h"
#include "tests/unit/build_component.h"

namespace accel::mask_tokens_test {
namespace {

constexpr int64_t kMask = 4;
constexpr int64_t kVocab = 1000;

DataShape token_shape() {
  DataShape shape{.input = {512}, .input_type = DType::kI64, .classes = 2, .vocab = kVocab};
  shape.mask_token = kMask;
  shape.special_tokens = {0, 2, 3, kMask};
  return shape;
}

std::vector<int64_t> values_of(const Array& array) {
  const auto values = array.as<int64_t>();
  return {values.begin(), values.end()};
}

Sample masked(const std::string& options, const std::vector<int64_t>& tokens, uint64_t sample) {
  const auto transform = build<Transform>("{type: mask_tokens, " + options + "}", {token_shape()});
  SampleRng rng(1, 2, sample);
  const auto length = static_cast<int64_t>(tokens.size());
  return transform->apply(
      {Array::of<int64_t>(DType::kI64, {length}, std::span(tokens)), Array::label(1)}, rng);
}

/// [CLS], many tokens that are not special, [SEP].
std::vector<int64_t> long_text() {
  std::vector<int64_t> tokens(10'002);
  std::iota(tokens.begin(), tokens.end(), 0);
  for (int64_t& token : tokens) token = 10 + token % (kVocab - 10);
  tokens.front() = 2;
  tokens.back() = 3;
  return tokens;
}

TEST(MaskTokensTest, AShareIsHiddenInThreeWays) {
  const std::vector<int64_t> before = long_text();
  const Sample sample = masked("share: 0.15", before, 5);
  const auto input = values_of(sample.input);
  const auto target = values_of(sample.target);
  std::map<std::string, int> counts;
  for (size_t i = 0; i < before.size(); ++i) {
    if (target[i] == kIgnoredTarget) {
      EXPECT_EQ(input[i], before[i]);
      continue;
    }
    EXPECT_EQ(target[i], before[i]);
    ++counts["all"];
    ++counts[input[i] == kMask ? "mask" : input[i] == before[i] ? "kept" : "random"];
  }
  EXPECT_NEAR(counts["all"], 1500, 120);
  EXPECT_NEAR(counts["mask"], 0.8 * counts["all"], 60);
  EXPECT_NEAR(counts["random"], 0.1 * counts["all"], 45);
  EXPECT_NEAR(counts["kept"], 0.1 * counts["all"], 45);
}

TEST(MaskTokensTest, SpecialTokensAreNeverHidden) {
  const Sample sample = masked("share: 1, mask: 1, random: 0", {2, 10, 0, 11, 3}, 0);
  EXPECT_EQ(values_of(sample.input), (std::vector<int64_t>{2, kMask, 0, kMask, 3}));
  EXPECT_EQ(values_of(sample.target),
            (std::vector<int64_t>{kIgnoredTarget, 10, kIgnoredTarget, 11, kIgnoredTarget}));
}

TEST(MaskTokensTest, OneTokenIsHiddenAtLeast) {
  std::map<int64_t, int> hidden;
  for (uint64_t i = 0; i < 100; ++i) {
    const auto target = values_of(masked("share: 0", {2, 10, 11, 3}, i).target);
    ASSERT_EQ(std::count(target.begin(), target.end(), kIgnoredTarget), 3);
    ++hidden[*std::max_element(target.begin(), target.end())];
  }
  EXPECT_GT(hidden[10], 25);
  EXPECT_GT(hidden[11], 25);
  const auto nothing = values_of(masked("share: 0.5", {2, 3}, 0).target);
  EXPECT_EQ(nothing, (std::vector<int64_t>{kIgnoredTarget, kIgnoredTarget}));
}

TEST(MaskTokensTest, OneTokenIsHiddenAtLeastOfEachPackedText) {
  DataShape shape = token_shape();
  shape.segments = 513;
  const auto transform = build<Transform>("{type: mask_tokens, share: 0}", {shape});
  const auto array = [](const std::vector<int64_t>& values) {
    return Array::of<int64_t>(DType::kI64, {static_cast<int64_t>(values.size())}, values);
  };
  const Array tokens = array({2, 10, 11, 3, 2, 3, 2, 12, 3}),
              texts = array({1, 1, 1, 1, 2, 2, 3, 3, 3});
  for (uint64_t i = 0; i < 20; ++i) {
    SampleRng rng(1, 2, i);
    const auto target = values_of(transform->apply({tokens, tokens, texts}, rng).target);
    EXPECT_EQ(std::count(target.begin(), target.begin() + 4, kIgnoredTarget), 3);
    EXPECT_EQ(std::count(target.begin() + 4, target.end(), kIgnoredTarget), 4);
    EXPECT_EQ(target[7], 12);
  }
}

TEST(MaskTokensTest, TheSampleDecidesAndWhatComesInStays) {
  const std::vector<int64_t> before = long_text();
  const Sample first = masked("share: 0.15", before, 5);
  EXPECT_EQ(values_of(masked("share: 0.15", before, 5).input), values_of(first.input));
  EXPECT_NE(values_of(masked("share: 0.15", before, 6).input), values_of(first.input));
}

TEST(MaskTokensTest, WhatComesOutHasTokensForTargets) {
  const DataShape shape = build<Transform>("mask_tokens", {token_shape()})->shape();
  EXPECT_EQ(shape.target, shape.input);
  EXPECT_EQ(shape.target_type, DType::kI64);
  EXPECT_EQ(shape.classes, 0);
}

TEST(MaskTokensTest, WhatCannotBeMaskedIsRefused) {
  EXPECT_EQ(
      complaint<Transform>("mask_tokens", {{.input = {3, 8, 8}}}),
      "the transform 'mask_tokens' requires tokens, but a sample of the data is F32 [3, 8, 8]");
  DataShape shape = token_shape();
  shape.mask_token.reset();
  EXPECT_EQ(
      complaint<Transform>("mask_tokens", {shape}),
      "the transform 'mask_tokens' requires a mask token, and the tokenizer of the data has none");
  EXPECT_NE(complaint<Transform>("{type: mask_tokens, mask: 0.8, random: 0.3}", {token_shape()})
                .find("'mask' and 'random' are shares of one whole, but together more than 1"),
            std::string::npos);
}

}  // namespace
}  // namespace accel::mask_tokens_test
