// Ids of Hugging Face tokenizers; tests/interop/make_tokenizers.py writes both files.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "tests/unit/formats/temp_folder.h"
#include "text/tokenizer.h"

namespace accel::golden_test {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

std::filesystem::path golden_folder() {
  return std::filesystem::path(std::getenv("ACCEL_SOURCE_DIR")) / "tests/unit/text/golden";
}

json golden_json(const std::filesystem::path& name) {
  std::ifstream file(golden_folder() / name);
  return json::parse(file);
}

class GoldenTokenizerTest : public testing::TestWithParam<const char*> {};

TEST_P(GoldenTokenizerTest, GivesThePackagesIdsAndTexts) {
  const auto tokenizer = load_tokenizer(golden_folder() / GetParam());
  const auto texts = golden_json("texts.json").get<std::vector<std::string>>();
  const json expected = golden_json(std::filesystem::path(GetParam()) / "expected.json");
  ASSERT_EQ(texts.size(), expected.size());
  ASSERT_GE(texts.size(), 200u);
  for (size_t i = 0; i < texts.size(); ++i) {
    const std::string& text = texts[i];
    const Ids ids = tokenizer->encode(text);
    EXPECT_EQ(ids, expected[i]["ids"].get<Ids>()) << json(text);
    EXPECT_EQ(tokenizer->decode(ids), expected[i]["decoded"].get<std::string>()) << json(text);
    if (!expected[i].contains("pair")) continue;
    const TokenPair pair = tokenizer->encode_pair(text, "Word pairs " + text);
    EXPECT_EQ(pair.ids, expected[i]["pair"].get<Ids>()) << json(text);
    EXPECT_EQ(pair.types, expected[i]["types"].get<Ids>()) << json(text);
    EXPECT_EQ(tokenizer->encode(text, false), expected[i]["plain"].get<Ids>()) << json(text);
    EXPECT_EQ(tokenizer->decode(ids, false), expected[i]["raw"].get<std::string>()) << json(text);
  }
}

INSTANTIATE_TEST_SUITE_P(All, GoldenTokenizerTest,
                         testing::Values("gpt2", "llama3", "bert", "t5", "llama2", "odd",
                                         "precompiled"),
                         [](const auto& tokenizer) { return std::string(tokenizer.param); });

TEST(TokenizerTest, SeveralThreadsGetWhatOneGets) {
  const auto tokenizer = load_tokenizer(golden_folder() / "gpt2/tokenizer.json");
  const auto texts = golden_json("texts.json").get<std::vector<std::string>>();
  const auto all = [&] {
    std::vector<Ids> ids;
    for (const std::string& text : texts) ids.push_back(tokenizer->encode(text));
    return ids;
  };
  std::vector<std::vector<Ids>> found(4);
  {
    std::vector<std::jthread> threads;
    for (auto& ids : found) threads.emplace_back([&] { ids = all(); });
  }
  for (const auto& ids : found) EXPECT_EQ(ids, found[0]);
  EXPECT_EQ(all(), found[0]);
}

TEST(TokenizerTest, KnowsItsTokens) {
  const auto bert = load_tokenizer(golden_folder() / "bert");
  EXPECT_EQ(bert->vocab_size(), 700);
  EXPECT_EQ(bert->id_of("[SEP]"), 3);
  EXPECT_EQ(bert->id_of("no such token"), std::nullopt);
  EXPECT_EQ(bert->token(2), "[CLS]");
  EXPECT_EQ(bert->token(700), "");
  EXPECT_EQ(bert->token(-1), "");
  const auto t5 = load_tokenizer(golden_folder() / "t5");
  EXPECT_EQ(t5->vocab_size(), 701);  // one is behind the model's
  EXPECT_EQ(t5->id_of("<extra_id_0>"), 700);
}

TEST(TokenizerTest, SpecialTokensAreKnownByTheirUsualSpellings) {
  const SpecialTokens bert = load_tokenizer(golden_folder() / "bert")->special();
  EXPECT_EQ(bert.pad, 0);
  EXPECT_EQ(bert.unk, 1);
  EXPECT_EQ(bert.cls, 2);
  EXPECT_EQ(bert.sep, 3);
  EXPECT_EQ(bert.mask, 4);
  EXPECT_EQ(bert.bos, std::nullopt);
  EXPECT_EQ(bert.eos, std::nullopt);
}

TEST(TokenizerTest, OnlyTheFirstWordOfATextIsMarkedWhereTheSchemeSaysSo) {
  const TempFolder folder;
  const auto tokenizer = load_tokenizer(folder.write("tokenizer.json", R"({
    "added_tokens": [{"id": 3, "content": "<s>", "special": true}],
    "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "WhitespaceSplit"},
      {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"}]},
    "model": {"type": "WordLevel", "unk_token": "?", "vocab": {"?": 0, "a": 1, "\u2581a": 2}}})"));
  EXPECT_EQ(tokenizer->encode("a a"), (Ids{2, 1}));
  EXPECT_EQ(tokenizer->encode(" a a"), (Ids{1, 1}));
  EXPECT_EQ(tokenizer->encode("<s>a a"), (Ids{3, 1, 1}));
  EXPECT_EQ(tokenizer->encode("a<s>a"), (Ids{2, 3, 1}));
}

TEST(TokenizerTest, BrokenBytesCountAsOneReplacementCharacterEach) {
  const auto tokenizer = load_tokenizer(golden_folder() / "gpt2");
  EXPECT_EQ(tokenizer->encode("a\xff\xe2\x82z"), tokenizer->encode("a\xef\xbf\xbd\xef\xbf\xbdz"));
}

TEST(TokenizerTest, IdsOfNoTokenGiveNoText) {
  const auto tokenizer = load_tokenizer(golden_folder() / "gpt2");
  Ids ids = tokenizer->encode("some text");
  ids.insert(ids.begin() + 1, {100'000, -5});
  EXPECT_EQ(tokenizer->decode(ids), "some text");
}

TEST(TokenizerTest, ALongWordWithoutBlanksTakesNoTimeOfNote) {
  const auto tokenizer = load_tokenizer(golden_folder() / "gpt2");
  const std::string text(1'000'000, 'a');
  const Ids ids = tokenizer->encode(text);
  EXPECT_EQ(tokenizer->decode(ids), text);
}

}  // namespace
}  // namespace accel::golden_test
