// Text and token files as samples of tokens and the ones that follow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "core/api/dataset.h"
#include "core/base/error.h"
#include "data/datasets/text/characters.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::text_test {
namespace {

/// A file for one test, and recipes that read it.
struct ScratchFile {
  explicit ScratchFile(const std::string& content) : path(folder.write("file", content)) {}

  std::string recipe(const std::string& type, const std::string& options) const {
    return "{type: " + type + ", path: " + path + ", " + options + "}";
  }

  TempFolder folder;
  std::string path;
};

std::vector<int64_t> numbers(const Array& array) {
  const auto values = array.as<int64_t>();
  return {values.begin(), values.end()};
}

std::string spelled(const Dataset& dataset, const Array& tokens) {
  const std::vector<std::string> names = dataset.shape().labels;
  std::string text;
  for (const int64_t id : numbers(tokens)) {
    text += names.empty() ? std::string(1, static_cast<char>(id)) : names[static_cast<size_t>(id)];
  }
  return text;
}

/// Every sample as "input>target", one after another.
std::vector<std::string> samples(const Dataset& dataset) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < dataset.size(); ++i) {
    const Sample sample = dataset.sample(i);
    all.push_back(spelled(dataset, sample.input) + ">" + spelled(dataset, sample.target));
  }
  return all;
}

struct WindowCase {
  const char* text;
  const char* options;
  std::vector<std::string> samples;
};

const WindowCase kWindows[] = {
    {"abcdefg", "max_seq_len: 3", {"abc>bcd", "def>efg"}},
    {"abcdefgh", "max_seq_len: 3", {"abc>bcd", "def>efg"}},
    {"abcdefg", "max_seq_len: 3, level: bytes", {"abc>bcd", "def>efg"}},
    {"abcde", "max_seq_len: 3, stride: 1", {"abc>bcd", "bcd>cde"}},
    {"abcd", "max_seq_len: 3", {"abc>bcd"}},
    {"abcdefgh", "max_seq_len: 1, stride: 4", {"a>b", "e>f"}},
    {"abcdefghij", "max_seq_len: 2, to: 0.5", {"ab>bc", "cd>de"}},
    {"abcdefghij", "max_seq_len: 2, from: 0.5", {"fg>gh", "hi>ij"}},
    {"aäb€c𝄞d", "max_seq_len: 3", {"aäb>äb€", "€c𝄞>c𝄞d"}},
    {"aäb€c𝄞d", "max_seq_len: 1, from: 0.5, stride: 1", {"€>c", "c>𝄞", "𝄞>d"}},
};

TEST(TextTest, CutsSamplesThatPredictTheNextToken) {
  for (const WindowCase& c : kWindows) {
    const ScratchFile file(c.text);
    const auto text = build<Dataset>(file.recipe("text", c.options));
    EXPECT_EQ(samples(*text), c.samples) << c.text << " " << c.options;
    EXPECT_EQ(text->shape().input, text->sample(0).input.shape());
    EXPECT_EQ(text->shape().target, text->sample(0).target.shape());
  }
}

TEST(TextTest, PartsOfAFileShareOneVocabulary) {
  const ScratchFile file("aaaaaazzzy");
  const auto train = build<Dataset>(file.recipe("text", "max_seq_len: 2, to: 0.6"));
  const auto eval = build<Dataset>(file.recipe("text", "max_seq_len: 2, from: 0.6"));
  EXPECT_EQ(train->shape().vocab, 3);
  EXPECT_EQ(train->shape().labels, (std::vector<std::string>{"a", "y", "z"}));
  EXPECT_EQ(eval->shape().labels, train->shape().labels);
  EXPECT_EQ(numbers(eval->sample(0).input), (std::vector<int64_t>{2, 2}));
  EXPECT_NE(train->fingerprint(), eval->fingerprint());
}

TEST(TextTest, BytesHaveTheVocabularyOfAllBytes) {
  const ScratchFile file(std::string("\xff\x00z", 3));
  const auto text = build<Dataset>(file.recipe("text", "max_seq_len: 2, level: bytes"));
  EXPECT_EQ(text->shape().vocab, 256);
  EXPECT_EQ(numbers(text->sample(0).input), (std::vector<int64_t>{255, 0}));
}

TEST(CharactersTest, AreNumberedByCodePoint) {
  EXPECT_EQ(Characters("zä\n€𝄞aä", "file").names(),
            (std::vector<std::string>{"\n", "a", "z", "ä", "€", "𝄞"}));
}

TEST(CharactersTest, ReadAnywhereInALongText) {
  std::string text;
  std::vector<int64_t> expected;
  for (int64_t i = 0; i < 3000; ++i) {
    constexpr const char* kSome[] = {"a", "b", "ä", "€", "𝄞"};
    const int64_t id = (i * i + i / 7) % 5;
    text += kSome[id];
    expected.push_back(id);
  }
  const Characters characters(text, "file");
  ASSERT_EQ(characters.count(), 3000);
  for (const int64_t first : {0, 1, 255, 256, 257, 1500, 2989}) {
    std::vector<int64_t> ids(11);
    characters.read(first, ids);
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), expected.begin() + first)) << first;
  }
}

TEST(TokensTest, ReadBothWidths) {
  const uint16_t narrow[] = {1, 65535, 3, 4, 5};
  const uint32_t wide[] = {1, 70000, 3, 4, 5};
  const ScratchFile short_file({reinterpret_cast<const char*>(narrow), sizeof narrow});
  const ScratchFile long_file({reinterpret_cast<const char*>(wide), sizeof wide});
  const auto two = build<Dataset>(short_file.recipe("tokens", "max_seq_len: 2"));
  const auto four = build<Dataset>(long_file.recipe("tokens", "max_seq_len: 2, dtype: uint32"));
  EXPECT_EQ(two->shape().vocab, 65536);
  EXPECT_EQ(four->shape().vocab, 70001);
  EXPECT_EQ(numbers(two->sample(0).input), (std::vector<int64_t>{1, 65535}));
  EXPECT_EQ(numbers(four->sample(0).target), (std::vector<int64_t>{70000, 3}));
  EXPECT_EQ(numbers(four->sample(1).target), (std::vector<int64_t>{4, 5}));
}

struct RefusalCase {
  std::string type;
  std::string content;
  const char* options;
  std::string message;  ///< '@' stands for the path
};

const RefusalCase kRefusals[] = {
    {"text", "abc", "max_seq_len: 3",
     "'@' has 3 tokens between 'from' and 'to', too few for samples of 3 and a next token"},
    {"text", "", "max_seq_len: 3",
     "'@' has 0 tokens between 'from' and 'to', too few for samples of 3 and a next token"},
    {"text",
     "ab\xff"
     "c",
     "max_seq_len: 1", "'@' is not UTF-8 text: byte 2 does not belong to any character"},
    {"text", "abc\xc3", "max_seq_len: 1",
     "'@' is not UTF-8 text: byte 3 does not belong to any character"},
    {"tokens", "abc", "max_seq_len: 1", "'@' is 3 bytes, not a whole number of tokens of 2 bytes"},
    {"tokens", "abcdef", "max_seq_len: 1, dtype: uint32",
     "'@' is 6 bytes, not a whole number of tokens of 4 bytes"},
};

TEST(TextTest, FilesThatDoNotFitAreRefused) {
  for (const RefusalCase& c : kRefusals) {
    const ScratchFile file(c.content);
    std::string message = c.message;
    message.replace(message.find('@'), 1, file.path);
    EXPECT_EQ(complaint<Dataset>(file.recipe(c.type, c.options)), message);
  }
}

TEST(TextTest, PartsMustNotBeEmpty) {
  const ScratchFile file("abc");
  EXPECT_NE(complaint<Dataset>(file.recipe("text", "from: 0.5, to: 0.5"))
                .find("'from' must be less than 'to'"),
            std::string::npos);
}

/// A text, and a tokenizer beside it.
struct TokenizedFile {
  explicit TokenizedFile(const std::string& content) : text(content) {
    tokenizer = text.folder.write("tokenizer.json", kSmallTokenizer);
  }

  std::unique_ptr<Dataset> open(const std::string& options) const {
    return build<Dataset>(
        text.recipe("text", "level: tokens, tokenizer: " + tokenizer + ", " + options));
  }

  ScratchFile text;
  std::string tokenizer;
};

TEST(TextTest, ATokenizerGivesTheTokens) {
  const auto data = TokenizedFile("Good films\nbad film good").open("max_seq_len: 3, stride: 1");
  ASSERT_EQ(data->size(), 3);
  EXPECT_EQ(numbers(data->sample(0).input), (std::vector<int64_t>{5, 7, 8}));
  EXPECT_EQ(numbers(data->sample(2).target), (std::vector<int64_t>{6, 7, 5}));
  EXPECT_EQ(data->shape().vocab, 9);
  EXPECT_EQ(data->shape().mask_token, 4);
  EXPECT_FALSE(data->shape().padding);
}

TEST(TextTest, DocumentsEndWithTheEndToken) {
  const auto data = TokenizedFile("{\"t\": \"good film\"}\n\n{\"t\": \"bad\"}\n")
                        .open("max_seq_len: 4, json_field: t");
  EXPECT_EQ(numbers(data->sample(0).input), (std::vector<int64_t>{5, 7, 3, 6}));
  EXPECT_EQ(numbers(data->sample(0).target), (std::vector<int64_t>{7, 3, 6, 3}));
}

TEST(TextTest, LongTextsAreEncodedInParts) {
  std::string lines;
  while (lines.size() < (3 << 20)) lines += "good film\n bad\n";
  const auto data = TokenizedFile(lines).open("max_seq_len: 3");
  EXPECT_EQ(data->size(), static_cast<int64_t>(lines.size() / 15) - 1);
  for (const int64_t index : {int64_t{0}, data->size() / 2, data->size() - 1}) {
    EXPECT_EQ(numbers(data->sample(index).input), (std::vector<int64_t>{5, 7, 6}));
  }
}

struct LevelCase {
  const char* options;
  const char* message;
};

const LevelCase kLevels[] = {
    {"level: tokens", "'level: tokens' takes a 'tokenizer'"},
    {"tokenizer: t.json", "'tokenizer' is for 'level: tokens'"},
    {"level: bytes, json_field: t", "'json_field' is for 'level: tokens'"},
};

TEST(TextTest, TokensTakeATokenizerAndNothingElseDoes) {
  const ScratchFile file("abc");
  for (const LevelCase& c : kLevels) {
    EXPECT_NE(complaint<Dataset>(file.recipe("text", c.options)).find(c.message), std::string::npos)
        << c.options;
  }
}

TEST(TokensTest, ATokenBeyondTheVocabularyIsNamed) {
  const uint16_t values[] = {1, 2, 9, 4};
  const ScratchFile file({reinterpret_cast<const char*>(values), sizeof values});
  const auto tokens =
      build<Dataset>(file.recipe("tokens", "max_seq_len: 1, vocab_size: 5, stride: 1"));
  EXPECT_EQ(numbers(tokens->sample(0).target), (std::vector<int64_t>{2}));
  try {
    tokens->sample(1);
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(), "token 2 of '" + file.path + "' is 9, not below the 'vocab_size' of 5");
  }
}

TEST(TextTest, TinyShakespeareHas65Characters) {
  const char* given = std::getenv("ACCEL_TEST_DATA");
  const char* root = std::getenv("ACCEL_SOURCE_DIR");
  const std::string data = given ? given : std::string(root ? root : ".") + "/../shared/data";
  const std::string path = data + "/tinyshakespeare/input.txt";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no '" << path << "'";
  const auto train = build<Dataset>("{type: text, path: " + path + ", stride: 1, to: 0.9}");
  const auto eval = build<Dataset>("{type: text, path: " + path + ", stride: 1, from: 0.9}");
  EXPECT_EQ(train->shape().vocab, 65);
  EXPECT_EQ(train->size(), 1003854 - 64);
  EXPECT_EQ(eval->size(), 111540 - 64);
  EXPECT_EQ(spelled(*train, train->sample(0).input).substr(0, 14), "First Citizen:");
}

}  // namespace
}  // namespace accel::text_test
