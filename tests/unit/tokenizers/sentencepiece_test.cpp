// .model files against SentencePiece itself, whose ids tests/interop/make_sentencepiece.py writes,
// and what such a file must not hold.
#include "runner/tokenizers/sentencepiece.h"

#include <gtest/gtest.h>

#include <bit>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "runner/formats/format_error.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

std::filesystem::path models_folder() {
  return std::filesystem::path(std::getenv("ACCEL_SOURCE_DIR")) /
         "tests/unit/tokenizers/golden/sentencepiece";
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
  // </s>, an id that there is not, and bytes that are no text
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
    const std::string before = "'" + path + "' is no model of SentencePiece's that can be read: ";
    const std::string said = error.what();
    EXPECT_TRUE(said.starts_with(before)) << said;
    return said.substr(std::min(said.size(), before.size()));
  }
  return "";
}

TEST(SentencePieceFileTest, WhatIsNoSuchFileIsTold) {
  const std::string good = piece("<unk>", 2) + piece("a", 1);
  EXPECT_EQ(refusal_of(good), "");
  const std::pair<std::string, const char*> cases[] = {
      {"", "it has no pieces"},
      {R"({"version": "1.0"})", "a field is of a kind that there is not"},
      {good.substr(0, good.size() - 3), "a field is longer than what holds it"},
      {std::string("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
       "a number has more than ten bytes"},
      {std::string("\x02\x00", 2), "a field has the number 0"},
      {piece("a", 1), "it has 0 pieces for the unknown, not one"},
      {good + piece("?", 2), "it has 2 pieces for the unknown, not one"},
      {good + piece("a", 1), "the piece 'a' is there twice"},
      {good + piece("", 1), "a piece is empty"},
      {good + piece("\xff", 1), "a text is no UTF-8"},
      {good + piece("b", 7), "a piece is of an unknown kind"},
      {good + piece("b", 1, std::numeric_limits<float>::infinity()),
       "the piece 'b' has no finite score"},
      {good + field(2, number(3, 9)), "the model is of an unknown kind"},
      {good + field(2, number(3, 3)),
       "its model is one of words or characters, which is not supported"},
      {good + field(2, number(35, 1)), "it has 0 pieces for bytes, not 256"},
      {good + field(3, field(2, "abc")), "is no table of SentencePiece's"},
      {good + field(5, field(2, "abc")), "it changes decoded text, which is not supported"}};
  for (const auto& [bytes, said] : cases) EXPECT_EQ(refusal_of(bytes), said);
  std::string bytes = good + field(2, number(35, 1));
  for (int i = 0; i < 256; ++i) bytes += piece("<" + std::to_string(i) + ">", 6);
  EXPECT_EQ(refusal_of(bytes), "it lacks the piece for a byte '<0x00>'");
}

TEST(SentencePieceFileTest, EveryCutIsRefusedOrRead) {
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
}  // namespace accel
