// Questions and windows of their contexts, with the places of answers.
#include <gtest/gtest.h>

#include "core/api/question_windows.h"
#include "core/api/row_values.h"
#include "core/api/targets.h"
#include "data/datasets/text/question_encoder.h"
#include "data/loader/mixture.h"
#include "data/loader/questions.h"
#include "data/loader/selected_samples.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/refusal.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::question_answering_test {
namespace {

constexpr auto kRow =
    R"({"id": "a", "context": "good film bad films", "question": " good", "answers": {"text": ["bad"], "answer_start": [10]}})";

class QuestionRowsTest : public testing::Test {
 protected:
  std::shared_ptr<Dataset> dataset(const std::string& content, const std::string& more = "",
                                   const DatasetContext& context = {}) {
    folder_.write("t.jsonl", content);
    folder_.write("tokenizer.json", kSmallTokenizer);
    return build<Dataset>("{type: question_answering, path: " + folder_.path("t.jsonl") +
                              ", tokenizer: " + folder_.path("tokenizer.json") +
                              (more.empty() ? "" : ", ") + more + "}",
                          context);
  }
  std::string refusal(const std::string& row, const std::string& more = "") {
    return refusal_in(folder_, [&] { dataset(row + "\n", more); });
  }
  /// "2 5 3 | first last", of a sample.
  static std::string shown(const Sample& sample) {
    std::string out;
    for (const int64_t id : sample.input.as<int64_t>()) out += std::to_string(id) + " ";
    out += "|";
    for (const int64_t place : sample.target.as<int64_t>()) out += " " + std::to_string(place);
    return out;
  }

  TempFolder folder_;
};

TEST_F(QuestionRowsTest, AWholeContextIsOneSample) {
  const auto data = dataset(kRow);
  ASSERT_EQ(data->size(), 1);
  // [CLS] good [SEP] good film bad film ##s [SEP]
  EXPECT_EQ(shown(data->sample(0)), "2 5 3 5 7 6 7 8 3 | 5 5");
  EXPECT_EQ(data->sample(0).segments.as<int64_t>()[2], 0);
  EXPECT_EQ(data->sample(0).segments.as<int64_t>()[3], 1);
  EXPECT_TRUE(has_question_windows(data->shape()));
  EXPECT_EQ(data->shape().segments, 2);
  EXPECT_EQ(data->name(0), "a");
}

TEST_F(QuestionRowsTest, WindowsOverlapAndTheAnswerIsInSomeOfThem) {
  const auto data = dataset(kRow, "max_length: 7, doc_stride: 2");
  ASSERT_EQ(data->size(), 3);
  EXPECT_EQ(shown(data->sample(0)), "2 5 3 5 7 6 3 | 5 5");
  EXPECT_EQ(shown(data->sample(1)), "2 5 3 7 6 7 3 | 4 4");
  EXPECT_EQ(shown(data->sample(2)), "2 5 3 6 7 8 3 | 3 3");
  const auto apart = dataset(kRow, "max_length: 6, doc_stride: 0");
  EXPECT_EQ(shown(apart->sample(0)), "2 5 3 5 7 3 | 0 0");
  EXPECT_EQ(shown(apart->sample(1)), "2 5 3 6 7 3 | 3 3");
  const auto& rows = dynamic_cast<const QuestionWindows&>(*data);
  const QuestionWindow window = rows.window(2);
  EXPECT_EQ(window.question, 0);
  EXPECT_EQ(window.first, 3);
  const std::vector<ContextBytes> bytes = {{10, 13}, {14, 18}, {18, 19}};
  EXPECT_EQ(std::vector(window.tokens.begin(), window.tokens.end()), bytes);
  EXPECT_EQ(dynamic_cast<const RowKeys&>(*data).row_keys("id").size(), 3U);
}

TEST_F(QuestionRowsTest, AnswersHaveSeveralForms) {
  const std::string other =
      R"({"context": "\u00fcber bad film", "question": "film", "answers": [{"text": "bad film", "answer_start": 5}]})";
  const auto data = dataset(other);
  EXPECT_EQ(shown(data->sample(0)), "2 7 3 1 6 7 3 | 4 5");
  EXPECT_EQ(data->name(0), "0");
  const auto none = dataset(R"({"context": "bad", "question": "film", "answers": null})");
  EXPECT_EQ(shown(none->sample(0)), "2 7 3 6 3 | 0 0");
  const auto rows = dataset(R"({"context": "bad", "question": "film"})", "", {.targets = false});
  EXPECT_EQ(shown(rows->sample(0)), "2 7 3 6 3 | -100 -100");
}

TEST_F(QuestionRowsTest, RowsThatCannotBeReadAreRefused) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"question": "film", "answers": null})", "has no field 'context'"},
      {R"({"context": 3, "question": "film", "answers": null})",
       "has no text in the field 'context'"},
      {R"({"context": "", "question": "film", "answers": null})",
       "has an empty text in the field 'context'"},
      {R"({"context": "bad", "question": "film"})", "has no field 'answers'"},
      {R"({"context": "bad", "question": "film", "answers": {"text": ["bad"], "answer_start": []}})",
       "has no lists 'text' and 'answer_start' of one length in the field 'answers'"},
      {R"({"context": "bad", "question": "film", "answers": [{"text": "bad"}]})",
       "has no 'text' with its 'answer_start' in the field 'answers'"},
      {R"({"context": "bad", "question": "film", "answers": ["bad"]})",
       "has no 'text' with its 'answer_start' in the field 'answers'"},
      {R"({"context": "bad film", "question": "film", "answers": {"text": ["bad"], "answer_start": [4]}})",
       "has the answer 'bad', but the context does not have it at 4"},
      {R"({"context": "bad film", "question": "film", "answers": {"text": ["bad"], "answer_start": [-1]}})",
       "has the answer 'bad', but the context does not have it at -1"},
  };
  for (const auto& [row, message] : cases) {
    EXPECT_EQ(refusal(row), std::string("t.jsonl:1: ") + message);
  }
  EXPECT_EQ(
      refusal(kRow, "max_length: 6, doc_stride: 2"),
      "t.jsonl:1: has a question of 1 tokens, which with a 'max_length' of 6 leaves 2 for its "
      "context, and 'doc_stride' is 2");
  const auto left =
      dataset(std::string(R"({"context": 3})") + "\n" + kRow, "on_bad_sample: skip(1)");
  EXPECT_EQ(left->size(), 1);
}

TEST_F(QuestionRowsTest, QuestionsOfCombinedDataAreNumberedTogether) {
  const std::string second =
      R"({"id": "b", "context": "bad", "question": "film", "answers": null})";
  const auto one = dataset(std::string(kRow) + "\n" + second), other = dataset(second);
  const auto both =
      std::make_shared<Concatenation>(std::vector<std::shared_ptr<const Dataset>>{one, other});
  const SelectedSamples chosen(both, {2, 1}, "");
  const auto questions = Questions::of(chosen);
  ASSERT_TRUE(questions);
  EXPECT_EQ(questions->count(), 3);
  EXPECT_EQ(questions->window(0).question, 0);  // the first dataset that is seen
  EXPECT_EQ(questions->window(1).question, 2);
  EXPECT_EQ(questions->question(2).id, "b");
}

TEST(AnswerPlaceTest, TheEndOfAWindowEndsTheSearch) {
  const std::vector<ContextBytes> tokens = {{0, 3}, {4, 7}, {8, 11}};
  using Places = std::pair<int64_t, int64_t>;
  EXPECT_EQ(answer_in(tokens, {0, 3}, {8, 11}), Places(2, 2));
  EXPECT_EQ(answer_in(tokens, {0, 3}, {5, 9}), Places(1, 2));
  EXPECT_EQ(answer_in(tokens, {1, 2}, {4, 7}), Places(0, 0));
  EXPECT_FALSE(answer_in(tokens, {1, 2}, {0, 7}));
  EXPECT_FALSE(answer_in(tokens, {0, 2}, {4, 11}));
  EXPECT_FALSE(answer_in(tokens, {1, 0}, {4, 7}));
}

}  // namespace
}  // namespace accel::question_answering_test
