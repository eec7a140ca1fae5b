// Columns of text as token sequences.
#include "data/datasets/text/text_columns.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "data/datasets/text/truncation.h"
#include "tests/unit/data/word_tokenizer.h"

namespace accel::text_columns_test {
namespace {

std::vector<int64_t> tokens_of(const Array& array) {
  const auto values = array.as<int64_t>();
  return {values.begin(), values.end()};
}

std::string refusal(const std::function<void()>& act) {
  try {
    act();
  } catch (const DataError& error) {
    return error.hint().empty() ? error.what() : std::string(error.what()) + "\n" + error.hint();
  }
  return "";
}

struct CutCase {
  const char* first;
  const char* second;  // null: a single text
  int64_t max_length;
  std::vector<int32_t> ids;
  std::vector<int32_t> types;
};

const CutCase kCuts[] = {
    {"a bb ccc", nullptr, 5, {100, 1, 2, 3, 101}, {}},
    {"a bb ccc", nullptr, 4, {100, 1, 2, 101}, {}},
    {"a bb ccc", nullptr, 3, {100, 1, 101}, {}},
    {"", nullptr, 3, {100, 101}, {}},
    {"a bb", "ccc dddd", 7, {100, 1, 2, 101, 3, 4, 101}, {0, 0, 0, 0, 1, 1, 1}},
    {"a bb ccc", "dddd", 6, {100, 1, 2, 101, 4, 101}, {0, 0, 0, 0, 1, 1}},
    {"a", "bb ccc dddd", 6, {100, 1, 101, 2, 3, 101}, {0, 0, 0, 1, 1, 1}},
    {"a bb ccc", "a bb ccc", 8, {100, 1, 2, 101, 1, 2, 3, 101}, {0, 0, 0, 0, 1, 1, 1, 1}},
    {"a bb ccc dddd", "a bb ccc", 8, {100, 1, 2, 3, 101, 1, 2, 101}, {0, 0, 0, 0, 0, 1, 1, 1}},
};

TEST(TruncationTest, TheTextIsCutAndTheSpecialTokensStay) {
  const WordTokenizer tokenizer;
  for (const CutCase& test : kCuts) {
    const TokenPair found =
        test.second
            ? encode_pair_cut(tokenizer, test.first, test.second, {.max_length = test.max_length})
            : encode_cut(tokenizer, test.first, {.max_length = test.max_length});
    EXPECT_EQ(found.ids, test.ids) << test.first << " at " << test.max_length;
    EXPECT_EQ(found.types, test.types) << test.first << " at " << test.max_length;
  }
}

TEST(TruncationTest, ThereMustBeRoomForAText) {
  EXPECT_EQ(refusal([] { encode_cut(WordTokenizer(), "a bb", {.max_length = 2}); }),
            "a 'max_length' of 2 leaves no room for a text: the tokenizer adds 2 special tokens\n"
            "raise 'max_length'");
}

TextColumns columns(TextColumnOptions options) {
  options.tokenizer.text = "unused";
  return {options, std::make_shared<WordTokenizer>(), {}, ""};
}

TEST(TextColumnsTest, TextsBecomeSamplesOfTheirOwnLength) {
  BadSamples bad({}, "t");
  TextColumns texts = columns({.text = {"sentence"}, .tokenizer = {}, .max_length = {4}});
  texts.add({"a bb", {}, "t:1"}, bad);
  texts.add({"ccc bb a dddd", {}, "t:2"}, bad);
  texts.add({"", {}, "t:3"}, bad);
  texts.finish(bad);
  ASSERT_EQ(texts.size(), 3);
  EXPECT_EQ(tokens_of(texts.sample(0).input), (std::vector<int64_t>{100, 1, 2, 101}));
  EXPECT_EQ(tokens_of(texts.sample(1).input), (std::vector<int64_t>{100, 3, 2, 101}));
  EXPECT_EQ(tokens_of(texts.sample(2).input), (std::vector<int64_t>{100, 101}));
  EXPECT_TRUE(texts.sample(0).segments.empty());
  EXPECT_TRUE(texts.sample(0).target.empty());
}

TEST(TextColumnsTest, PairsTellTheirTextsApart) {
  BadSamples bad({}, "t");
  TextColumns texts = columns({.text = {"question", "answer"}, .tokenizer = {}});
  texts.add({"a", "bb", "t:1"}, bad);
  texts.finish(bad);
  EXPECT_EQ(tokens_of(texts.sample(0).input), (std::vector<int64_t>{100, 1, 101, 2, 101}));
  EXPECT_EQ(tokens_of(texts.sample(0).segments), (std::vector<int64_t>{0, 0, 0, 1, 1}));
  EXPECT_EQ(texts.described({}).segments, 2);
}

TEST(TextColumnsTest, TheShapeSaysHowSamplesAreFilled) {
  const TextColumns texts =
      columns({.text = {"sentence"}, .tokenizer = {}, .max_length = {9}, .pad_to_multiple_of = 8});
  const DataShape shape = texts.described({.classes = 3});
  EXPECT_EQ(shape.input, Shape{9});
  EXPECT_EQ(shape.input_type, DType::kI64);
  EXPECT_EQ(shape.vocab, 102);
  EXPECT_EQ(shape.classes, 3);
  EXPECT_EQ(shape.segments, 0);
  ASSERT_TRUE(shape.padding);
  EXPECT_EQ(shape.padding->input, 99);
  EXPECT_EQ(shape.padding->multiple, 8);
}

TEST(TextColumnsTest, WhatIsWrongWithARecordIsToldWithItsPlace) {
  BadSamples bad({}, "t");
  TextColumns texts = columns({.text = {"sentence"}, .tokenizer = {}, .max_length = {2}});
  EXPECT_EQ(refusal([&] {
              texts.add({"a bb", {}, "train.tsv:7"}, bad);
              texts.finish(bad);
            }),
            "train.tsv:7: a 'max_length' of 2 leaves no room for a text: the tokenizer adds 2 "
            "special tokens\nraise 'max_length'");
}

/// A tokenizer that refuses some texts.
class ChoosyTokenizer final : public Tokenizer {
 public:
  std::vector<int32_t> encode(std::string_view text, bool with_special) const override {
    if (text.starts_with("refused")) throw DataError("refused");
    return words_.encode(text, with_special);
  }
  TokenPair encode_pair(std::string_view first, std::string_view second) const override {
    return words_.encode_pair(first, second);
  }
  std::string decode(std::span<const int32_t> ids, bool skip) const override {
    return words_.decode(ids, skip);
  }
  int64_t vocab_size() const override { return words_.vocab_size(); }
  std::optional<int32_t> id_of(std::string_view token) const override {
    return words_.id_of(token);
  }
  std::string token(int32_t id) const override { return words_.token(id); }
  const SpecialTokens& special() const override { return words_.special(); }
  const std::string& digest() const override { return words_.digest(); }

 private:
  WordTokenizer words_;
};

/// So many that they are encoded on all cores, and several times over.
std::vector<std::string> many_texts() {
  std::vector<std::string> out;
  for (size_t i = 0; i < 4000; ++i) {
    std::string text = std::string(1 + i % 90, 'a');
    for (size_t word = 0; word < i % 13; ++word) text += " " + std::string(1 + word * 7, 'b');
    out.push_back(std::move(text));
  }
  return out;
}

TEST(TextColumnsTest, ManyCoresGiveTheTokensInTheirOrder) {
  BadSamples bad({}, "t");
  const WordTokenizer tokenizer;
  TextColumns texts = columns({.text = {"sentence"}, .tokenizer = {}, .max_length = {9}});
  const std::vector<std::string> all = many_texts();
  for (int round = 0; round < 3; ++round) {
    for (const std::string& text : all) texts.add({text, {}, "t"}, bad);
  }
  texts.finish(bad);
  ASSERT_EQ(texts.size(), static_cast<int64_t>(3 * all.size()));
  for (int64_t i = 0; i < texts.size(); ++i) {
    const auto wanted =
        encode_cut(tokenizer, all[static_cast<size_t>(i) % all.size()], {.max_length = 9}).ids;
    ASSERT_EQ(tokens_of(texts.sample(i).input), std::vector<int64_t>(wanted.begin(), wanted.end()))
        << i;
  }
}

TEST(TextColumnsTest, OfSeveralWrongRecordsTheFirstIsTold) {
  BadSamples bad({}, "t");
  TextColumns texts({.text = {"sentence"}, .tokenizer = {}}, std::make_shared<ChoosyTokenizer>(),
                    {}, "");
  EXPECT_EQ(refusal([&] {
              int64_t line = 0;
              for (const std::string& text : many_texts()) {
                ++line;
                texts.add({line == 700 || line == 720 || line == 1500 ? "refused" : text,
                           {},
                           "t:" + std::to_string(line)},
                          bad);
              }
              texts.finish(bad);
            }),
            "t:700: refused");
}

TEST(TextColumnsTest, TheIdentityFollowsWhatMakesTheTokens) {
  const std::string first = columns({.text = {"a"}, .tokenizer = {}}).identity();
  EXPECT_EQ(columns({.text = {"b"}, .tokenizer = {}}).identity(), first);
  EXPECT_NE(columns({.text = {"a"}, .tokenizer = {}, .max_length = {9}}).identity(), first);
  EXPECT_NE(columns({.text = {"a", "b"}, .tokenizer = {}}).identity(), first);
}

}  // namespace
}  // namespace accel::text_columns_test
