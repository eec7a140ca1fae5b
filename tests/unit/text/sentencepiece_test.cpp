// .model files against ids of SentencePiece (tests/interop/make_sentencepiece.py), and refused
// files.
#include "text/sentencepiece.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::sentencepiece_test {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

std::filesystem::path models_folder() {
  return std::filesystem::path(std::getenv("ACCEL_SOURCE_DIR")) /
         "tests/unit/text/golden/sentencepiece";
}

class SentencePieceTest : public testing::TestWithParam<const char*> {};

TEST_P(SentencePieceTest, GivesTheIdsAndTextsOfSentencePiece) {
  const auto tokenizer = load_tokenizer(models_folder() / (std::string(GetParam()) + ".model"));
  std::ifstream file(models_folder() / "golden.json");
  const json golden = json::parse(file)[GetParam()];
  ASSERT_GE(golden.size(), 60U);
  for (const json& item : golden) {
    const Ids ids = tokenizer->encode(item["text"].get<std::string>());
    EXPECT_EQ(ids, item["ids"].get<Ids>()) << item["text"];
    EXPECT_EQ(tokenizer->decode(ids), item["decoded"].get<std::string>()) << item["text"];
  }
}

INSTANTIATE_TEST_SUITE_P(All, SentencePieceTest,
                         testing::Values("unigram", "unigram_bytes", "unigram_own",
                                         "unigram_unused", "bpe", "bpe_bytes", "bpe_own",
                                         "bpe_unused"),
                         [](const auto& model) { return std::string(model.param); });

TEST(SentencePieceFileTest, SpecialTokensAreKnownByTheirSpellings) {
  const auto tokenizer = load_tokenizer(models_folder() / "unigram_own.model");
  EXPECT_EQ(tokenizer->special().unk, 0);
  EXPECT_EQ(tokenizer->special().bos, 1);
  EXPECT_EQ(tokenizer->special().eos, 2);
  EXPECT_EQ(tokenizer->special().pad, 3);
  ASSERT_TRUE(tokenizer->special().mask);
  EXPECT_EQ(tokenizer->token(*tokenizer->special().mask), "<mask>");
  EXPECT_EQ(tokenizer->vocab_size(), 200);
  EXPECT_EQ(tokenizer->token(200), "");
  EXPECT_FALSE(tokenizer->id_of("no such piece"));
  EXPECT_EQ(tokenizer->digest().size(), 16U);
  EXPECT_NE(tokenizer->digest(), load_tokenizer(models_folder() / "unigram.model")->digest());
}

TEST(SentencePieceFileTest, SpecialTokensAreAddedToNoText) {
  const auto tokenizer = load_tokenizer(models_folder() / "unigram.model");
  const Ids first = tokenizer->encode("one"), second = tokenizer->encode("two");
  EXPECT_EQ(tokenizer->encode("one", /*with_special=*/false), first);
  const TokenPair pair = tokenizer->encode_pair("one", "two");
  Ids both = first;
  both.insert(both.end(), second.begin(), second.end());
  EXPECT_EQ(pair.ids, both);
  EXPECT_EQ(pair.types.front(), 0);
  EXPECT_EQ(pair.types.back(), 1);
  EXPECT_EQ(pair.types.size(), both.size());
  // </s>, an unknown id, and invalid UTF-8
  Ids odd = first;
  odd.insert(odd.end(), {2, 100000, -1});
  EXPECT_EQ(tokenizer->decode(odd), "one");
  EXPECT_EQ(tokenizer->decode(odd, /*skip_special=*/false), "one</s>");
}

std::string field(int number, const std::string& bytes) {
  std::string out(1, static_cast<char>(number << 3 | 2));
  return out.append(1, static_cast<char>(bytes.size())).append(bytes);
}

std::string number(int field, int value) {
  std::string out(1, static_cast<char>((field << 3) & 0x7f));
  if (field > 15)
    out = {static_cast<char>((field << 3 & 0x7f) | 0x80), static_cast<char>(field >> 4)};
  return out.append(1, static_cast<char>(value));
}

std::string piece(const std::string& text, int kind, float score = -1) {
  const auto bits = std::bit_cast<uint32_t>(score);
  std::string bytes(1, static_cast<char>(2 << 3 | 5));
  for (int i = 0; i < 4; ++i) bytes += static_cast<char>(bits >> (8 * i));
  return field(1, field(1, text) + bytes + number(3, kind));
}

std::string refusal_of(const std::string& bytes) {
  const TempFolder folder;
  const std::string path = folder.write("x.model", bytes);
  try {
    load_tokenizer(path);
  } catch (const DataError& error) {
    const std::string before = "'" + path + "' is not a readable SentencePiece model: ";
    const std::string said = error.what();
    EXPECT_TRUE(said.starts_with(before)) << said;
    return said.substr(std::min(said.size(), before.size()));
  }
  return "";
}

TEST(SentencePieceFileTest, InvalidFilesAreRefused) {
  const std::string good = piece("<unk>", 2) + piece("a", 1);
  EXPECT_EQ(refusal_of(good), "");
  const std::pair<std::string, const char*> cases[] = {
      {"", "it has no pieces"},
      {R"({"version": "1.0"})", "a field has an unknown wire type"},
      {good.substr(0, good.size() - 3), "a field is longer than its message"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
       "a varint has more than ten bytes"},
      {std::string("\x02\x00", 2), "a field has the number 0"},
      {piece("a", 1), "it has 0 unknown pieces, 1 wanted"},
      {good + piece("?", 2), "it has 2 unknown pieces, 1 wanted"},
      {good + piece("a", 1), "the piece 'a' appears twice"},
      {good + piece("", 1), "a piece is empty"},
      {good + piece("\xff", 1), "a string is not UTF-8"},
      {good + piece("b", 7), "a piece has an unknown type"},
      {good + piece("b", 1, std::numeric_limits<float>::infinity()),
       "the score of the piece 'b' is not finite"},
      {good + field(2, number(3, 9)), "the model type is unknown"},
      {good + field(2, number(3, 3)), "its model type is word or char, which is not supported"},
      {good + field(2, number(35, 1)), "it has 0 byte pieces, 256 wanted"},
      {good + field(3, field(2, "abc")), "is not a SentencePiece character map"},
      {good + field(5, field(2, "abc")), "it has a denormalizer, which is not supported"}};
  for (const auto& [bytes, said] : cases) EXPECT_EQ(refusal_of(bytes), said);
  std::string bytes = good + field(2, number(35, 1));
  for (int i = 0; i < 256; ++i) bytes += piece("<" + std::to_string(i) + ">", 6);
  EXPECT_EQ(refusal_of(bytes), "it has no byte piece '<0x00>'");
}

TEST(SentencePieceFileTest, EveryTruncationIsRefusedOrRead) {
  std::ifstream file(models_folder() / "bpe_own.model", std::ios::binary);
  const std::string whole{std::istreambuf_iterator<char>(file), {}};
  int read = 0;
  for (size_t size = 0; size < whole.size(); size += 7) {
    try {
      const SentencePiece cut(std::string_view(whole).substr(0, size));
      EXPECT_NO_THROW(cut.decode(cut.encode("she sells www", true), true));
      ++read;
    } catch (const FormatError&) {
    }
  }
  EXPECT_LT(read, static_cast<int>(whole.size() / 7));
}

}  // namespace
}  // namespace accel::sentencepiece_test
