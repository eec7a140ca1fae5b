// Images, lists of tokens and selections in files that Hugging Face's datasets wrote: see
// tests/interop/make_golden_arrow.py. Skipped where Arrow is not.
#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "core/api/row_values.h"
#include "core/api/targets.h"
#include "core/base/error.h"
#include "data/loader/epoch_order.h"
#include "tests/unit/arrow_library.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::hub_columns_test {
namespace {

const std::string kGolden =
    std::string(std::getenv("ACCEL_SOURCE_DIR") ? std::getenv("ACCEL_SOURCE_DIR") : ".") +
    "/tests/unit/data/golden/arrow/";

using Numbers = std::vector<int64_t>;

Numbers numbers_of(const Array& array) {
  const auto values = array.as<int64_t>();
  return {values.begin(), values.end()};
}

class HubColumnsTest : public testing::Test {
 protected:
  void SetUp() override { open_arrow_library(); }

  static std::unique_ptr<Dataset> open(const std::string& type, const std::string& name,
                                       const std::string& options = "",
                                       const DatasetContext& context = {}) {
    return build<Dataset>("{type: " + type + ", path: " + kGolden + name + options + "}", context);
  }
  static std::string wrong(const std::string& type, const std::string& name,
                           const std::string& options) {
    try {
      open(type, name, options);
    } catch (const Error& error) {
      std::string text = std::string(error.what()) + "\n" + error.hint();
      for (size_t at; (at = text.find(kGolden)) != text.npos;) text.erase(at, kGolden.size());
      return text;
    }
    return "";
  }
};

TEST_F(HubColumnsTest, ASelectionGivesTheRowsThatItsIndicesName) {
  const TempFolder folder;
  const std::string tokenizer = folder.write("tokenizer.json", kSmallTokenizer);
  const auto data = open("arrow", "selected", ", target: label, tokenizer: " + tokenizer);
  ASSERT_EQ(data->size(), 3);
  // Rows 6, 0 and 3: good film film, good film, bad; 5 is good, 6 bad, 7 film.
  const std::vector<Numbers> words = {{5, 7, 7}, {5, 7}, {6}};
  const Numbers labels = {1, 1, 0};
  for (int64_t i = 0; i < 3; ++i) {
    const Sample sample = data->sample(i);
    Numbers found = numbers_of(sample.input);
    std::erase_if(found, [](int64_t token) { return token < 5; });
    EXPECT_EQ(found, words[static_cast<size_t>(i)]);
    EXPECT_EQ(numbers_of(sample.target)[0], labels[static_cast<size_t>(i)]);
  }
  EXPECT_EQ(data->shape().labels, (std::vector<std::string>{"bad", "good"}));
  EXPECT_NE(data->fingerprint(),
            open("arrow", "saved", ", target: label, tokenizer: " + tokenizer)->fingerprint());
}

TEST_F(HubColumnsTest, RowsHaveKeysByAColumn) {
  const auto images = open("hf_images", "images.parquet");
  const auto tokens = open("hf_tokens", "tokens.parquet", ", vocab_size: 10");
  const auto light = dynamic_cast<const RowKeys&>(*images).row_keys("label");
  EXPECT_EQ(light.size(), 4u);
  EXPECT_TRUE(light[0] == light[2] && light[1] == light[3] && light[0] != light[1]);
  const auto answers = dynamic_cast<const RowKeys&>(*tokens).row_keys("label");
  EXPECT_TRUE(answers[0] == answers[2] && answers[0] != answers[1]);
}

TEST_F(HubColumnsTest, ImagesAreThoseThatWereSaved) {
  for (const std::string name : {"images", "images.parquet"}) {
    const auto data = open("hf_images", name);
    ASSERT_EQ(data->size(), 4) << name;
    EXPECT_EQ(data->shape().input, (Shape{3, 4, 4}));
    EXPECT_EQ(data->shape().labels, (std::vector<std::string>{"dark", "light"}));
    const int greys[] = {0, 250, 10, 240};
    for (int64_t i = 0; i < 4; ++i) {
      const Sample sample = data->sample(i);
      ASSERT_EQ(sample.input.shape(), (Shape{3, 4, 4}));
      EXPECT_EQ(sample.input.as<float>().front(), static_cast<float>(greys[i]) / 255.0f) << name;
      EXPECT_EQ(sample.input.as<float>().back(), static_cast<float>(greys[i] + 5) / 255.0f);
      EXPECT_EQ(numbers_of(sample.target)[0], i % 2);
    }
  }
  EXPECT_EQ(open("hf_images", "images", ", size: [2, 3], grayscale: true")->sample(1).input.shape(),
            (Shape{1, 2, 3}));
  EXPECT_EQ(open("hf_images", "images", "", {.targets = false})->shape().classes, 0);
}

TEST_F(HubColumnsTest, ListsOfNumbersAreTokens) {
  for (const std::string name : {"tokens", "tokens.parquet"}) {
    const auto data = open("hf_tokens", name, ", vocab_size: 10, pad: 1");
    ASSERT_EQ(data->size(), 3) << name;
    EXPECT_EQ(data->shape().input, (Shape{4}));
    EXPECT_EQ(data->shape().target, (Shape{4}));
    EXPECT_EQ(data->shape().vocab, 10);
    EXPECT_EQ(data->shape().padding->input, 1);
    EXPECT_EQ(numbers_of(data->sample(2).input), (Numbers{9, 3, 4, 5}));
    EXPECT_EQ(numbers_of(data->sample(2).target), (Numbers{3, 4, 5, kIgnoredTarget}));
    EXPECT_EQ(dynamic_cast<const KnowsLengths&>(*data).length(0), 3);

    const auto marked =
        open("hf_tokens", name, ", vocab_size: 10, token_targets: labels, max_length: 3");
    EXPECT_EQ(numbers_of(marked->sample(0).target), (Numbers{6, 7, kIgnoredTarget}));
    EXPECT_EQ(numbers_of(marked->sample(2).input), (Numbers{9, 3, 4}));
    EXPECT_EQ(numbers_of(marked->sample(2).target), (Numbers{kIgnoredTarget, 4, kIgnoredTarget}));

    const auto classes = open("hf_tokens", name, ", vocab_size: 10, target: label");
    EXPECT_EQ(classes->shape().target, Shape{});
    EXPECT_EQ(classes->shape().labels, (std::vector<std::string>{"no", "yes"}));
    EXPECT_EQ(numbers_of(classes->sample(0).target), Numbers{1});
  }
}

TEST_F(HubColumnsTest, PaddingThatIsMaskedIsNoText) {
  const auto data = open("hf_tokens", "padded.parquet", ", vocab_size: 10");
  EXPECT_EQ(numbers_of(data->sample(0).input), (Numbers{5, 6, 7}));
  EXPECT_EQ(numbers_of(data->sample(1).input), Numbers{4});
  EXPECT_EQ(numbers_of(data->sample(2).input), (Numbers{1, 2, 3, 4}));
  const auto marked =
      open("hf_tokens", "padded.parquet", ", vocab_size: 10, token_targets: labels");
  EXPECT_EQ(numbers_of(marked->sample(0).target), (Numbers{6, 7, kIgnoredTarget}));
  EXPECT_EQ(wrong("hf_tokens", "padded_left.parquet", ", vocab_size: 10"),
            "padded_left.parquet row 0 has padding before or between tokens in 'attention_mask'\n"
            "write the tokens without padding: batches are padded on the right");
}

struct WrongColumn {
  const char* type;
  const char* name;
  const char* options;
  const char* reported;
};

constexpr WrongColumn kWrongColumns[] = {
    {"hf_tokens", "tokens.parquet", ", vocab_size: 9",
     "tokens.parquet row 2 holds a token that is not below the 'vocab_size' of 9\n"
     "set the 'vocab_size' of their tokenizer"},
    {"hf_tokens", "tokens.parquet", ", vocab_size: 10, input: label",
     "'tokens.parquet': field 'label' has the type 'int64', a list of integers wanted\n"},
    {"hf_tokens", "plain.parquet", ", vocab_size: 10, input: nested, target: none",
     "'plain.parquet' has no field 'none'\nit has the fields 'nested', 'text', 'coded', 'large', "
     "'label', 'score', 'half', 'truth'"},
    {"hf_images", "plain.parquet", ", image: text",
     "'plain.parquet': field 'text' has the type 'string', bytes or images wanted\n"},
    {"hf_images", "images.parquet", ", labels: [a, b]",
     "images.parquet row 0: the label 'dark' is not one of 'labels'\n"},
};

TEST_F(HubColumnsTest, WhatDoesNotFitIsTold) {
  for (const WrongColumn& item : kWrongColumns) {
    EXPECT_EQ(wrong(item.type, item.name, item.options), item.reported) << item.options;
  }
}

}  // namespace
}  // namespace accel::hub_columns_test
