// The best answers over the windows of contexts, and contexts without an answer.
#include "train/tasks/answer_search.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/api/dataset.h"

namespace accel::answer_search_test {
namespace {

/// One question on "red blue green" in two windows of two words, behind two tokens.
class TwoWindows final : public Dataset, public QuestionWindows {
 public:
  int64_t size() const override { return 2; }
  Sample sample(int64_t) const override { return {}; }
  DataShape shape() const override { return {}; }
  std::string fingerprint() const override { return {}; }
  int64_t num_questions() const override { return 1; }
  QuestionText question(int64_t) const override { return {"q", "red blue green", answers_}; }
  QuestionWindow window(int64_t index) const override {
    return {0, 2, std::span(words_).subspan(static_cast<size_t>(index), 2)};
  }

 private:
  std::vector<std::string> answers_ = {"blue"};
  std::vector<ContextBytes> words_ = {{0, 3}, {4, 8}, {9, 14}};
};

using Logits = std::initializer_list<float>;

/// [1, 5, 2]: [CLS], the question, two words and [SEP].
at::Tensor scores(Logits first, Logits last) {
  return at::stack({at::tensor(first), at::tensor(last)}, 1).unsqueeze(0);
}

FoundAnswer found(const at::Tensor& one, const at::Tensor& other, const AnswerOptions& options) {
  const TwoWindows data;
  at::Tensor rows = answer_places(at::cat({one, other}), {}, options.n_best_size).to(at::kDouble);
  rows = at::cat({at::tensor({0.0, 1.0}, at::kDouble).view({2, 1}), rows}, 1);
  return find_answers(*Questions::of(data), rows, options).at(0);
}

// "red" has 2.5, "blue" 4 in the first window; "blue green" 5 in the second.
const at::Tensor kFirst = scores({0, 9, 1, 2, 0}, {0, 9, 1.5, 2, 0});
const at::Tensor kSecond = scores({1, 0, 3, 0, 0}, {1, 0, -1, 2, 7});

TEST(AnswerSearchTest, TheBestSpanOfAllWindowsIsTheAnswer) {
  const FoundAnswer answer = found(kFirst, kSecond, {});
  EXPECT_EQ(answer.text, "blue green");
  // [CLS] has 0 in the first window and 2 in the second.
  EXPECT_EQ(answer.null_score_diff, -5);
  EXPECT_EQ(answer.n_best.size(), 6U);
  EXPECT_EQ(answer.n_best[1].first, "blue");
  EXPECT_NEAR(answer.n_best[0].second / answer.n_best[1].second, std::exp(1.0), 1e-12);
  EXPECT_EQ(found(kFirst, kSecond, {.max_answer_length = 1}).text, "blue");
}

TEST(AnswerSearchTest, OnlyTheLikeliestPlacesAreCombined) {
  // Of each window: the two likeliest first tokens, and last ones.
  const FoundAnswer answer = found(kFirst, kSecond, {.n_best_size = 2});
  EXPECT_EQ(answer.text, "blue green");
  EXPECT_EQ(answer.n_best.size(), 2U);
  // The question's token is the likeliest: no span of the context is left.
  const FoundAnswer none = found(kFirst, kFirst, {.n_best_size = 1});
  EXPECT_EQ(none.text, "");
  EXPECT_TRUE(none.n_best.empty());
}

TEST(AnswerSearchTest, NoAnswerIsPredictedAboveTheThreshold) {
  AnswerOptions options = {.version_2_with_negative = true};
  EXPECT_EQ(found(kFirst, kSecond, options).text, "blue green");
  options.null_score_diff_threshold = -5.5;
  EXPECT_EQ(found(kFirst, kSecond, options).text, "");
  options.null_score_diff_threshold = -5;
  EXPECT_EQ(found(kFirst, kSecond, options).text, "blue green");
  // It is among the best beside those that are cut.
  options.n_best_size = 2;
  const FoundAnswer cut = found(kFirst, kSecond, options);
  EXPECT_EQ(cut.n_best.size(), 3U);
  EXPECT_EQ(cut.n_best.back().first, "");
}

TEST(AnswerSearchTest, PaddingHasNoPlaces) {
  const at::Tensor places = answer_places(kSecond, at::tensor({4}, at::kLong), 6);
  ASSERT_EQ(places.sizes(), (std::vector<int64_t>{1, 25}));
  EXPECT_EQ(places[0][0].item<float>(), 2);
  // First tokens by falling logit, then none for padding and beyond the sample.
  EXPECT_EQ(places[0][1].item<float>(), 2);
  EXPECT_EQ(places[0][2].item<float>(), 0);
  EXPECT_EQ(places[0][5].item<float>(), -1);
  EXPECT_EQ(places[0][6].item<float>(), -1);
  EXPECT_EQ(places[0][13].item<float>(), 3);
}

}  // namespace
}  // namespace accel::answer_search_test
