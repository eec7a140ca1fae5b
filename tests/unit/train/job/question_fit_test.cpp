// Jobs of the task `question_answering`: its metrics by data and options, and refusals.
#include <gtest/gtest.h>

#include <cstdlib>

#include "core/base/error.h"
#include "tests/unit/train/job/make_job.h"
#include "train/loop/evaluate.h"

namespace accel::question_fit_test {
namespace {

std::string data_folder() {
  return std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/recipes/tiny/data/";
}

std::string rows(const std::string& file) {
  return "{type: question_answering, path: " + data_folder() + file +
         ", tokenizer: " + data_folder() + "squad_tokenizer.json, max_length: 32, doc_stride: 8}";
}

std::string recipe(const std::string& options, const std::string& train, const std::string& eval) {
  return "model: {type: bert, num_layers: 1, num_heads: 2, hidden_size: 16, vocab_size: 60}\n"
         "task: {type: question_answering" +
         options + "}\ndata:\n  train: " + train + "\n  eval: " + eval +
         "\ntrain: {until: 8 steps, batch: 4}\neval: {every: 4 steps, batch: 5}\n";
}

std::string of_texts(const std::string& options = "") {
  return recipe(options, rows("squad.jsonl"), rows("squad_eval.jsonl"));
}

std::string of_places(const std::string& options = "") {
  const std::string npy = "{type: npy, inputs: " + data_folder() +
                          "answers.npy, targets: " + data_folder() + "answer_spans.npy}";
  return recipe(options, npy, npy);
}

/// The first line of what building the job throws; "" when it can be built.
std::string complaint(const std::string& text) {
  try {
    make_job(text);
  } catch (const Error& error) {
    const std::string all = error.what();
    const std::string line = all.substr(0, all.find('\n'));
    const size_t at = line.find("error: ");
    return at == line.npos ? line : line.substr(at + 7);
  }
  return "";
}

constexpr auto kNegative = ", version_2_with_negative: true";

TEST(QuestionFitTest, MetricsFollowTheDataAndTheTask) {
  const auto job = make_job(of_texts(kNegative));
  EXPECT_EQ(names_of(job->metric_names),
            (std::vector<std::string>{"eval/loss", "eval/exact", "eval/f1", "eval/HasAns_exact",
                                      "eval/HasAns_f1", "eval/NoAns_exact", "eval/NoAns_f1"}));
  const auto values = evaluate(*job);
  ASSERT_TRUE(values);
  EXPECT_TRUE(values->contains("eval/NoAns_f1"));
  EXPECT_GE(values->at("eval/f1"), values->at("eval/exact"));
  EXPECT_EQ(names_of(make_job(of_places())->metric_names),
            (std::vector<std::string>{"eval/loss", "eval/exact_match", "eval/span_f1"}));
}

TEST(QuestionFitTest, QuestionsWithoutAnAnswerNeedTheirMetric) {
  EXPECT_EQ(complaint(of_texts()),
            "8 of 32 questions have no answer, and the metric 'squad' has no score for them");
}

TEST(QuestionFitTest, OptionsWithoutEffectAreRefused) {
  EXPECT_EQ(complaint(of_places(kNegative)),
            "'version_2_with_negative' of the task 'question_answering' has no effect on spans of "
            "tokens");
  EXPECT_EQ(complaint(of_places(", n_best_size: 3")),
            "'n_best_size' of the task 'question_answering' has no effect on spans of tokens");
  EXPECT_EQ(complaint(of_texts(", null_score_diff_threshold: 1")),
            "'null_score_diff_threshold' has no effect without 'version_2_with_negative'");
}

}  // namespace
}  // namespace accel::question_fit_test
