// Lines of JSON as samples of tokens.
#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "core/api/packed_sequences.h"
#include "core/api/row_values.h"
#include "core/api/targets.h"
#include "core/base/error.h"
#include "data/loader/curriculum.h"
#include "data/loader/epoch_order.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::jsonl_dataset_test {
namespace {

class JsonlDatasetTest : public testing::Test {
 protected:
  std::unique_ptr<Dataset> dataset(const std::string& content, const std::string& options) {
    folder_.write("t.jsonl", content);
    folder_.write("tokenizer.json", kSmallTokenizer);
    return build<Dataset>("{type: jsonl, path: " + path_ +
                          ", tokenizer: " + folder_.path("tokenizer.json") +
                          (options.empty() ? "" : ", ") + options + "}");
  }

  TempFolder folder_;
  const std::string path_ = folder_.path("t.jsonl");
};

std::vector<int64_t> values_of(const Array& array) {
  const auto values = array.as<int64_t>();
  return {values.begin(), values.end()};
}

TEST_F(JsonlDatasetTest, LinesKnowTheNumbersOfAField) {
  const auto data =
      dataset("{\"text\": \"good\", \"grade\": 2.5}\n{\"text\": \"bad\", \"grade\": \"-1\"}\n", "");
  EXPECT_EQ(dynamic_cast<const RowNumbers&>(*data).row_numbers("grade"),
            (std::vector<double>{2.5, -1}));
  const auto words = dataset("{\"text\": \"good\", \"grade\": \"hard\"}\n", "");
  EXPECT_EQ(complaint([&] { dynamic_cast<const RowNumbers&>(*words).row_numbers("grade"); }),
            path_ + ":1: field 'grade' holds 'hard', not a number");
}

constexpr auto kThree =
    "{\"text\": \"good film\", \"grade\": 1}\n{\"text\": \"films bad bad\", \"grade\": 2}\n"
    "{\"text\": \"bad\", \"grade\": 3}\n";

TEST_F(JsonlDatasetTest, PackedTextsAreNumberedAndEndWithoutATarget) {
  testing::internal::CaptureStdout();
  const auto data = dataset(kThree, "pack: true, max_length: 8");
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "'" + path_ + "': 3 texts packed into 2 samples of up to 8 tokens, 81 % full\n");
  ASSERT_EQ(data->size(), 2);
  const Sample sample = data->sample(0);
  EXPECT_EQ(values_of(sample.input), (std::vector<int64_t>{2, 5, 7, 3, 2, 6, 3}));
  EXPECT_EQ(values_of(sample.target),
            (std::vector<int64_t>{5, 7, 3, kIgnoredTarget, 6, 3, kIgnoredTarget}));
  EXPECT_EQ(values_of(sample.segments), (std::vector<int64_t>{1, 1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(dynamic_cast<const KnowsLengths&>(*data).length(0), 7);
  EXPECT_TRUE(is_packed(data->shape()));
  EXPECT_EQ(data->shape().target, data->shape().input);
  const auto apart = dataset(kThree, "max_length: 8");
  EXPECT_EQ(apart->size(), 3);
  EXPECT_EQ(dynamic_cast<const KnowsLengths&>(*apart).length(0), 4);
  EXPECT_NE(data->fingerprint(), apart->fingerprint());
}

TEST_F(JsonlDatasetTest, WhatNeedsRowsRefusesPackedOnes) {
  const auto data = dataset(kThree, "pack: true, max_length: 8");
  EXPECT_EQ(complaint([&] { dynamic_cast<const RowNumbers&>(*data).row_numbers("grade"); }),
            "'curriculum' orders rows by 'grade', but 'pack' puts several texts into a sample\n"
            "leave out 'pack' or 'curriculum'");
  EXPECT_EQ(complaint([&] { dynamic_cast<const RowKeys&>(*data).row_keys("grade"); }),
            "'group' keeps rows with one 'grade' together, but 'pack' puts several texts into a "
            "sample\nleave out 'pack' or 'group', or name a file of eval data");
}

TEST_F(JsonlDatasetTest, LinesBecomeTokensAndLabels) {
  const auto data = dataset(
      "{\"text\": \"good film\", \"label\": \"pos\"}\n{\"label\": \"neg\", \"text\": \"bad\"}\n",
      "target: label");
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(values_of(data->sample(0).input), (std::vector<int64_t>{2, 5, 7, 3}));
  EXPECT_EQ(values_of(data->sample(1).input), (std::vector<int64_t>{2, 6, 3}));
  EXPECT_EQ(values_of(data->sample(0).target), (std::vector<int64_t>{1}));
  EXPECT_EQ(values_of(data->sample(1).target), (std::vector<int64_t>{0}));
  const DataShape shape = data->shape();
  EXPECT_EQ(shape.labels, (std::vector<std::string>{"neg", "pos"}));
  EXPECT_EQ(shape.classes, 2);
  EXPECT_EQ(shape.vocab, 9);
  EXPECT_EQ(shape.mask_token, 4);
  EXPECT_EQ(shape.special_tokens, (std::vector<int64_t>{0, 1, 4, 2, 3}));
  ASSERT_TRUE(shape.padding);
}

TEST_F(JsonlDatasetTest, NumbersAreForRegression) {
  const auto data = dataset("{\"s\": \"good\", \"n\": 0.5}\n{\"s\": \"bad\", \"n\": -2}\n",
                            "text: s, target: n, target_type: number");
  EXPECT_EQ(data->shape().target_type, DType::kF32);
  EXPECT_EQ(data->sample(1).target.as<float>()[0], -2.0f);
}

TEST_F(JsonlDatasetTest, WithoutATargetTheNextTokensAreIt) {
  const auto data = dataset("{\"text\": \"good film\"}\n", "");
  EXPECT_EQ(values_of(data->sample(0).target), (std::vector<int64_t>{5, 7, 3, kIgnoredTarget}));
  EXPECT_EQ(data->shape().target, data->shape().input);
}

TEST_F(JsonlDatasetTest, TheEndTokenFollowsTextsThatLackIt) {
  const std::string lines = "{\"text\": \"good film\"}\n{\"text\": \"bad[MASK]\"}\n";
  EXPECT_EQ(complaint([&] { dataset(lines, "append_eos: true"); }),
            "'append_eos' needs an end token, and the tokenizer has none\n"
            "name one as \"eos_token\" in 'special_tokens_map.json' in the same folder");
  EXPECT_EQ(complaint([&] {
              dataset(lines, "text: [a, b], append_eos: true");
            }).find("'append_eos' is for samples of one text"),
            std::string("recipe.yaml:1:1: error: ").size());
  folder_.write("special_tokens_map.json", R"({"eos_token": "[MASK]"})");
  const auto data = dataset(lines, "append_eos: true");
  EXPECT_EQ(values_of(data->sample(0).input), (std::vector<int64_t>{2, 5, 7, 4, 3}));
  EXPECT_EQ(values_of(data->sample(1).input), (std::vector<int64_t>{2, 6, 4, 3}));
  const auto cut = dataset(lines, "append_eos: true, max_length: 3");
  EXPECT_EQ(values_of(cut->sample(0).input), (std::vector<int64_t>{2, 5, 3}));
  EXPECT_NE(data->fingerprint(), dataset(lines, "")->fingerprint());
}

TEST_F(JsonlDatasetTest, PairsAreOneSequence) {
  const auto data = dataset("{\"a\": \"good\", \"b\": \"bad film\", \"y\": 0}\n",
                            "text: [a, b], target: y, max_length: 8");
  EXPECT_EQ(values_of(data->sample(0).input), (std::vector<int64_t>{2, 5, 3, 6, 7, 3}));
  EXPECT_EQ(values_of(data->sample(0).segments), (std::vector<int64_t>{0, 0, 0, 1, 1, 1}));
}

TEST_F(JsonlDatasetTest, WhatIsWrongIsToldWithItsLine) {
  EXPECT_EQ(complaint([&] {
              dataset("{\"text\": \"good\", \"y\": \"x\"}\n", "target: y, target_type: number");
            }),
            path_ + ":1: field 'y' holds 'x', not a number");
  EXPECT_EQ(complaint([&] {
              dataset("{\"text\": \"good\", \"y\": \"x\"}\n", "target: y, labels: [a, b]");
            }),
            path_ + ":1: field 'y' holds 'x', none of the labels of the recipe");
  EXPECT_EQ(complaint([&] { dataset("\n", ""); }), "'" + path_ + "' has no lines");
}

TEST_F(JsonlDatasetTest, TheFingerprintFollowsContentAndTokens) {
  const std::string line = "{\"text\": \"good\", \"y\": 0, \"z\": 0}\n";
  const std::string first = dataset(line, "target: y")->fingerprint();
  EXPECT_EQ(dataset(line, "target: y")->fingerprint(), first);
  EXPECT_NE(dataset(line + line, "target: y")->fingerprint(), first);
  EXPECT_NE(dataset(line, "target: z")->fingerprint(), first);
  EXPECT_NE(dataset(line, "target: y, max_length: 9")->fingerprint(), first);
}

}  // namespace
}  // namespace accel::jsonl_dataset_test
