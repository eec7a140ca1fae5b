// Scores of answers, with the numbers of the metrics squad and squad_v2 of the package evaluate.
#include "train/metrics/squad.h"

#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <cmath>

#include "tests/unit/build_component.h"

namespace accel::squad_test {
namespace {

std::map<std::string, double> scores(const std::string& name,
                                     const std::vector<AnsweredQuestion>& answered) {
  const auto metric = build<Metric>(name);
  auto& answers = dynamic_cast<AnswerMetric&>(*metric);
  if (!answered.empty()) {
    answers.set_answers([&](const at::Tensor& rows) {
      EXPECT_EQ(rows[0][0].item<double>(), 7);
      return answered;
    });
    Batch batch;
    batch.ids = {7};
    answers.update({at::zeros({1, 3}), batch, 0, 1});
  }
  const auto values = metric->values();
  return {values.begin(), values.end()};
}

// Words, articles, punctuation and case; the best of several references.
const std::vector<AnsweredQuestion> kAnswers = {{"The Cat's  hat.", {"cats hat"}},
                                                {"a theme, an \xC3\x89"
                                                 "clair",
                                                 {"theme \xC3\xA9"
                                                  "clair"}},
                                                {"red blue blue", {"blue green", "red blue"}},
                                                {"nothing", {"all"}},
                                                {"the", {"a"}}};

TEST(SquadTest, ScoresAreThoseOfThePackage) {
  const auto found = scores("squad", kAnswers);
  EXPECT_NEAR(found.at("exact_match"), 60, 1e-12);
  EXPECT_NEAR(found.at("f1"), (100 + 100 + 80 + 0 + 0) / 5.0, 1e-12);
  EXPECT_TRUE(std::isnan(scores("squad", {}).at("f1")));
}

TEST(SquadV2Test, QuestionsWithoutAnAnswerAreApart) {
  std::vector<AnsweredQuestion> answers = kAnswers;
  answers.push_back({"", {}});
  answers.push_back({"red", {}});
  answers.push_back({"", {"red"}});
  const auto found = scores("squad_v2", answers);
  EXPECT_NEAR(found.at("exact"), 100 * 4 / 8.0, 1e-12);
  // An answer of articles alone is as good as none.
  EXPECT_NEAR(found.at("f1"), 100 * (1 + 1 + 0.8 + 0 + 1 + 1 + 0 + 0) / 8, 1e-12);
  EXPECT_NEAR(found.at("HasAns_exact"), 50, 1e-12);
  EXPECT_NEAR(found.at("HasAns_f1"), 100 * 3.8 / 6, 1e-12);
  EXPECT_NEAR(found.at("NoAns_exact"), 50, 1e-12);
  EXPECT_NEAR(found.at("NoAns_f1"), 50, 1e-12);
}

}  // namespace
}  // namespace accel::squad_test
