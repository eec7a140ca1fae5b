// Words and their tags as samples: which tokens carry a tag, and what is no such file.
#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "core/api/packed_sequences.h"
#include "core/api/row_values.h"
#include "core/api/targets.h"
#include "core/base/error.h"
#include "data/datasets/text/word_encoder.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/refusal.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/data/word_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::token_classification_test {
namespace {

using Numbers = std::vector<int64_t>;

constexpr int64_t kNo = kIgnoredTarget;

Numbers numbers_of(const Array& array) {
  const auto values = array.as<int64_t>();
  return {values.begin(), values.end()};
}

class TokenClassificationTest : public testing::Test {
 protected:
  std::string options(const std::string& content, const std::string& more) {
    folder_.write("tokenizer.json", kSmallTokenizer);
    folder_.write("t.jsonl", content);
    return "{type: token_classification, path: " + folder_.path("t.jsonl") +
           ", tokenizer: " + folder_.path("tokenizer.json") + (more.empty() ? "" : ", ") + more +
           "}";
  }
  std::unique_ptr<Dataset> dataset(const std::string& content, const std::string& more = "") {
    return build<Dataset>(options(content, more));
  }
  std::string refusal(const std::string& content, const std::string& more = "") {
    return refusal_in(folder_, [&] { dataset(content, more); });
  }

  TempFolder folder_;
};

constexpr auto kLines = R"({"tokens": ["Good", "films", "bad"], "ner_tags": ["O", "B-ART", "O"]}

{"tokens": ["zzz", "", "films"], "ner_tags": ["B-PER", "O", "I-PER"], "id": 3}
)";

TEST_F(TokenClassificationTest, TheFirstTokenOfAWordCarriesItsTag) {
  const auto data = dataset(kLines);
  ASSERT_EQ(data->size(), 2);
  const DataShape shape = data->shape();
  EXPECT_EQ(shape.labels, (std::vector<std::string>{"B-ART", "B-PER", "I-PER", "O"}));
  EXPECT_EQ(shape.classes, 4);
  EXPECT_EQ(shape.vocab, 9);
  EXPECT_EQ(shape.input, (Shape{128}));
  EXPECT_EQ(shape.target, shape.input);
  EXPECT_TRUE(shape.padding);
  const Sample first = data->sample(0);
  EXPECT_EQ(numbers_of(first.input), (Numbers{2, 5, 7, 8, 6, 3}));
  EXPECT_EQ(numbers_of(first.target), (Numbers{kNo, 3, 0, kNo, 3, kNo}));
  EXPECT_TRUE(first.segments.empty());
  const Sample second = data->sample(1);
  EXPECT_EQ(numbers_of(second.input), (Numbers{2, 1, 7, 8, 3}));
  EXPECT_EQ(numbers_of(second.target), (Numbers{kNo, 1, 2, kNo, kNo})) << "an empty word is none";
}

TEST_F(TokenClassificationTest, PackedTextsAreNumberedAndKeepTheirTags) {
  testing::internal::CaptureStdout();
  const auto data = dataset(kLines, "pack: true, max_length: 12");
  EXPECT_EQ(testing::internal::GetCapturedStdout(),
            "'" + folder_.path("t.jsonl") +
                "': 2 texts packed into 1 samples of up to 12 tokens, 92 % full\n");
  ASSERT_EQ(data->size(), 1);
  const Sample sample = data->sample(0);
  EXPECT_EQ(numbers_of(sample.input), (Numbers{2, 5, 7, 8, 6, 3, 2, 1, 7, 8, 3}));
  EXPECT_EQ(numbers_of(sample.target), (Numbers{kNo, 3, 0, kNo, 3, kNo, kNo, 1, 2, kNo, kNo}));
  EXPECT_EQ(numbers_of(sample.segments), (Numbers{1, 1, 1, 1, 1, 1, 2, 2, 2, 2, 2}));
  EXPECT_TRUE(is_packed(data->shape()));
  EXPECT_NE(data->fingerprint(), dataset(kLines, "max_length: 12")->fingerprint());
  EXPECT_EQ(dataset(kLines, "pack: true, max_length: 10")->size(), 2);
  EXPECT_EQ(refusal_in(folder_, [&] { dynamic_cast<const RowKeys&>(*data).row_keys("id"); }),
            "'group' keeps rows with one 'id' together, but 'pack' puts several texts into a "
            "sample");
  const auto predicted =
      build<Dataset>(options(kLines, "pack: true, max_length: 12"), {.targets = false});
  EXPECT_EQ(predicted->size(), 2);
  EXPECT_FALSE(is_packed(predicted->shape()));
}

TEST_F(TokenClassificationTest, TagsMayBeNumbers) {
  constexpr auto kNumbered = R"({"w": ["good", "bad"], "t": [2, 0]})";
  const auto own = dataset(kNumbered, "words: w, tags: t");
  EXPECT_EQ(numbers_of(own->sample(0).target), (Numbers{kNo, 2, 0, kNo}));
  EXPECT_EQ(own->shape().classes, 3);
  EXPECT_TRUE(own->shape().labels.empty());
  const auto named = dataset(kNumbered, "words: w, tags: t, labels: [O, B-X, I-X, B-Y]");
  EXPECT_EQ(numbers_of(named->sample(0).target), (Numbers{kNo, 2, 0, kNo}));
  EXPECT_EQ(named->shape().classes, 4);
  EXPECT_EQ(named->shape().labels.at(2), "I-X");
}

TEST_F(TokenClassificationTest, ATagOfMinus100IsNoLabel) {
  const auto named =
      dataset(R"({"w": ["good", "bad", "films"], "t": ["O", "-100", "B-X"]})", "words: w, tags: t");
  EXPECT_EQ(numbers_of(named->sample(0).target), (Numbers{kNo, 1, kNo, 0, kNo, kNo}));
  EXPECT_EQ(named->shape().labels, (std::vector<std::string>{"B-X", "O"}));
  const auto numbered = dataset(R"({"w": ["good", "bad"], "t": [-100, 1]})", "words: w, tags: t");
  EXPECT_EQ(numbers_of(numbered->sample(0).target), (Numbers{kNo, kNo, 1, kNo}));
  EXPECT_EQ(numbered->shape().classes, 2);
  const auto listed =
      dataset(R"({"w": ["good", "bad"], "t": [-100, 1]})", "words: w, tags: t, labels: [O, B-X]");
  EXPECT_EQ(numbers_of(listed->sample(0).target), (Numbers{kNo, kNo, 1, kNo}));
}

TEST_F(TokenClassificationTest, WhatIsTooLongLosesItsLastTokens) {
  const auto data = dataset(kLines, "max_length: 4, labels: [O, B-ART, B-PER, I-PER]");
  EXPECT_EQ(numbers_of(data->sample(0).input), (Numbers{2, 5, 7, 3}));
  EXPECT_EQ(numbers_of(data->sample(0).target), (Numbers{kNo, 0, 1, kNo}));
  EXPECT_EQ(numbers_of(data->sample(1).input), (Numbers{2, 1, 7, 3}));
  EXPECT_EQ(data->shape().input, (Shape{4}));
  EXPECT_EQ(refusal(kLines, "max_length: 2"),
            "a 'max_length' of 2 leaves no room for a text: the tokenizer adds 2 special tokens");
}

TEST_F(TokenClassificationTest, WithoutTargetsNoTagsAreRead) {
  const std::string yaml = options(R"({"tokens": ["good", "films"]})", "labels: [O, B-ART]");
  const auto data = build<Dataset>(yaml, DatasetContext{.targets = false});
  EXPECT_EQ(numbers_of(data->sample(0).target), (Numbers{kNo, 0, 0, kNo, kNo}))
      << "which tokens are the first of a word";
  EXPECT_EQ(data->shape().labels, (std::vector<std::string>{"O", "B-ART"}));
}

TEST_F(TokenClassificationTest, TheFingerprintFollowsWhatIsRead) {
  const std::string before = dataset(kLines)->fingerprint();
  EXPECT_EQ(dataset(kLines)->fingerprint(), before);
  EXPECT_NE(dataset(kLines, "max_length: 5")->fingerprint(), before);
  EXPECT_NE(dataset(std::string(kLines) + "\n")->fingerprint(), before);
}

TEST_F(TokenClassificationTest, WhatIsWrongIsToldWithItsLine) {
  struct Case {
    const char* line;
    const char* message;
  };
  const Case cases[] = {
      {"[1]", "is not a JSON object"},
      {R"({"ner_tags": []})", "has no field 'tokens'"},
      {R"({"tokens": "good", "ner_tags": []})", "has no list in the field 'tokens'"},
      {R"({"tokens": [], "ner_tags": []})", "has no words in the field 'tokens'"},
      {R"({"tokens": [3], "ner_tags": [3]})",
       "has a word in the field 'tokens' that is not a string"},
      {R"({"tokens": ["good"]})", "has no field 'ner_tags'"},
      {R"({"tokens": ["good"], "ner_tags": [1.5]})",
       "has a tag in the field 'ner_tags' that is neither a text nor a whole number"},
      {R"({"tokens": ["good", "bad"], "ner_tags": ["O"]})",
       "has 2 words in the field 'tokens' and 1 tags in the field 'ner_tags'"},
      {R"({"tokens": ["good"], "ner_tags": ["B-X"]})",
       "has the tag 'B-X', which is not one of the 4 labels"},
      {R"({"tokens": ["good"], "ner_tags": [4]})",
       "has the tag '4', which is not one of the 4 labels"},
  };
  for (const auto& [line, message] : cases) {
    EXPECT_EQ(refusal(std::string(kLines) + line, "labels: [O, B-ART, B-PER, I-PER]"),
              "t.jsonl:4: " + std::string(message));
  }
  EXPECT_EQ(refusal("\n"), "'t.jsonl' has no lines");
}

TEST(WordEncoderTest, SpecialTokensBelongToNoWord) {
  const auto tokenizer = std::make_shared<WordTokenizer>();
  const auto ids = [&](const TruncationConfig& cut) {
    return WordEncoder(tokenizer, cut).encode({"one", "two words"}).ids;
  };
  const WordTokens tokens =
      WordEncoder(tokenizer, {.max_length = 8}).encode({"one", "two words", ""});
  EXPECT_EQ(tokens.ids, (std::vector<int32_t>{100, 3, 3, 5, 101}));
  EXPECT_EQ(tokens.words, (std::vector<int32_t>{-1, 0, 1, 1, -1}));
  EXPECT_EQ(ids({.max_length = 4}), (std::vector<int32_t>{100, 3, 3, 101}));
  EXPECT_EQ(ids({.max_length = 4, .from_left = true}), (std::vector<int32_t>{100, 3, 5, 101}));
}

/// A tokenizer whose tokens spell the space before a word, or not, as byte-level ones do.
class SpacedTokenizer final : public Tokenizer {
 public:
  explicit SpacedTokenizer(bool always) : always_(always) {}

  std::vector<int32_t> encode(std::string_view text, bool) const override {
    if (text.empty()) return {};
    return {always_ || text.starts_with(' ') ? 1 : 0};
  }
  TokenPair encode_pair(std::string_view, std::string_view) const override { return {}; }
  std::string decode(std::span<const int32_t>, bool) const override { return ""; }
  int64_t vocab_size() const override { return 2; }
  std::optional<int32_t> id_of(std::string_view) const override { return {}; }
  std::string token(int32_t id) const override { return id == 1 ? "\xc4\xa0x" : "x"; }
  const SpecialTokens& special() const override { return special_; }
  const std::string& digest() const override { return digest_; }

 private:
  bool always_;
  SpecialTokens special_;
  std::string digest_;
};

TEST(WordEncoderTest, AllWordsHaveTheSpaceThatATokenizerMarks) {
  for (const bool always : {false, true}) {
    const WordEncoder encoder(std::make_shared<SpacedTokenizer>(always), {.max_length = 8});
    EXPECT_EQ(encoder.encode({"a", "", " b"}).ids, (std::vector<int32_t>{1, 1})) << always;
  }
}

}  // namespace
}  // namespace accel::token_classification_test
