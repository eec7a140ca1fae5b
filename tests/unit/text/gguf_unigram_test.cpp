// Unigram tokenizers as metadata of GGUF files.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/text.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"
#include "text/gguf_tokenizer.h"

namespace accel::gguf_unigram_test {
namespace {

using nlohmann::json;

const json kMetaspace = {
    {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", "always"}, {"split", true}};
const json kSqueeze = {{"type", "Replace"}, {"pattern", {{"Regex", " {2,}"}}}, {"content", "▁"}};
const json kStrip = {{"type", "Strip"}, {"strip_left", false}, {"strip_right", true}};

json sequence_of(const char* list, const std::vector<json>& steps) {
  return {{"type", "Sequence"}, {list, steps}};
}

/// T5's kind of pre_tokenizer, without a normalizer.
json unigram_file() {
  json file = json::parse(R"({"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 0, "content": "<pad>", "special": true},
                     {"id": 1, "content": "</s>", "special": true},
                     {"id": 2, "content": "<unk>", "special": true},
                     {"id": 7, "content": "[note]", "normalized": false, "special": false}],
    "normalizer": null, "decoder": null,
    "post_processor": {"type": "TemplateProcessing",
       "single": [{"Sequence": {"id": "A", "type_id": 0}},
                  {"SpecialToken": {"id": "</s>", "type_id": 0}}],
       "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
       "special_tokens": {"</s>": {"id": "</s>", "ids": [1], "tokens": ["</s>"]}}},
    "model": {"type": "Unigram", "unk_id": 2, "byte_fallback": false,
              "vocab": [["<pad>", 0], ["</s>", 0], ["<unk>", 0], ["▁", -2.5], ["▁a", -3],
                        ["a", -2], ["b", -4.25]]}})");
  file["pre_tokenizer"] = sequence_of("pretokenizers", {{{"type", "WhitespaceSplit"}}, kMetaspace});
  return file;
}

GgufTokenizer read(const json& file, int64_t rows = 10) {
  const TempFolder folder;
  folder.write("tokenizer.json", file.dump());
  return gguf_tokenizer(folder.path(), rows);
}

/// The value of a field of "tokenizer.ggml."; none: an empty one.
template <class T>
T value(const GgufTokenizer& tokenizer, const std::string& key) {
  for (const GgufField& field : tokenizer.fields) {
    if (field.key == "tokenizer.ggml." + key) return std::get<T>(field.value);
  }
  return {};
}

bool has_note(const GgufTokenizer& tokenizer, const std::string& part) {
  for (const std::string& note : tokenizer.notes) {
    if (note.find(part) != note.npos) return true;
  }
  return false;
}

std::string refusal(const json& file) {
  const std::string found = complaint([&] { read(file); });
  constexpr std::string_view kFirst = "tokenizer.json': ";
  const size_t start = found.find(kFirst);
  if (start == found.npos) return found;
  return found.substr(start + kFirst.size(), found.find('\n') - start - kFirst.size());
}

std::string golden(const char* name) {
  return text("{}/tests/unit/text/golden/sentencepiece/{}", std::getenv("ACCEL_SOURCE_DIR"), name);
}

TEST(GgufUnigramTest, ItHasScoresTypesAndTheUnknownToken) {
  const GgufTokenizer found = read(unigram_file());
  EXPECT_EQ(value<std::string>(found, "model"), "t5");
  EXPECT_EQ(value<std::vector<std::string>>(found, "tokens"),
            (std::vector<std::string>{"<pad>", "</s>", "<unk>", "▁", "▁a", "a", "b", "[note]",
                                      "[PAD8]", "[PAD9]"}));
  EXPECT_EQ(value<std::vector<int32_t>>(found, "token_type"),
            (std::vector<int32_t>{3, 3, 2, 1, 1, 1, 1, 4, 5, 5}));
  EXPECT_EQ(value<std::vector<float>>(found, "scores"),
            (std::vector<float>{0, 0, 0, -2.5, -3, -2, -4.25, 0, -1e9, -1e9}));
  EXPECT_EQ(value<uint32_t>(found, "unknown_token_id"), 2U);
  EXPECT_EQ(value<uint32_t>(found, "eos_token_id"), 1U);
  EXPECT_TRUE(value<bool>(found, "add_eos_token"));
  EXPECT_FALSE(value<bool>(found, "add_bos_token"));
  EXPECT_TRUE(value<bool>(found, "add_space_prefix"));
  EXPECT_TRUE(value<bool>(found, "remove_extra_whitespaces"));
  EXPECT_TRUE(value<std::vector<uint8_t>>(found, "precompiled_charsmap").empty());
  EXPECT_TRUE(value<std::vector<std::string>>(found, "merges").empty());
  EXPECT_EQ(
      found.notes,
      (std::vector<std::string>{
          "llama.cpp splits at spaces, and not at other whitespace as the tokenizer does",
          "llama.cpp may choose another of several equally likely tokenizations, as of repeated "
          "characters"}));
}

TEST(GgufUnigramTest, TheLastOfEqualTokensIsUsed) {
  json file = unigram_file();
  file["model"]["vocab"][3] = {"a", -1};
  const GgufTokenizer found = read(file);
  EXPECT_EQ(value<std::vector<std::string>>(found, "tokens").at(3), "[PAD3]");
  EXPECT_EQ(value<std::vector<int32_t>>(found, "token_type").at(3), 5);
  EXPECT_EQ(value<std::vector<float>>(found, "scores").at(3), -1e9F);
  EXPECT_EQ(value<std::vector<std::string>>(found, "tokens").at(5), "a");
}

TEST(GgufUnigramTest, SpacesAreRemovedAsByTheSteps) {
  json file = unigram_file();
  file["pre_tokenizer"] = kMetaspace;
  GgufTokenizer found = read(file);
  EXPECT_FALSE(value<bool>(found, "remove_extra_whitespaces"));
  EXPECT_TRUE(has_note(found,
                       "llama.cpp prepends a space to texts that begin with one, and none to "
                       "those of spaces only"));
  file["normalizer"] = sequence_of("normalizers", {kStrip, kSqueeze});
  found = read(file);
  EXPECT_TRUE(value<bool>(found, "remove_extra_whitespaces"));
  EXPECT_EQ(found.notes.size(), 1U);
  file["normalizer"] = kSqueeze;
  EXPECT_TRUE(has_note(read(file), "llama.cpp removes the spaces at the end of a text"));
  file["normalizer"] = nullptr;
  file["pre_tokenizer"]["prepend_scheme"] = "never";
  found = read(file);
  EXPECT_FALSE(value<bool>(found, "add_space_prefix"));
  EXPECT_EQ(found.notes.size(), 1U);
  file["pre_tokenizer"]["prepend_scheme"] = "first";
  EXPECT_TRUE(has_note(read(file), "prepends a space after a special token too"));
}

TEST(GgufUnigramTest, OtherStepsAreRefused) {
  json file = unigram_file();
  file["pre_tokenizer"]["pretokenizers"][1]["prepend_scheme"] = "never";
  EXPECT_EQ(refusal(file),
            "it removes repeated spaces without a space prefix, which llama.cpp always adds then");
  constexpr auto kWords = "its 'pre_tokenizer' is no Metaspace, nor one after a WhitespaceSplit";
  file = unigram_file();
  file["pre_tokenizer"] = nullptr;
  EXPECT_EQ(refusal(file), kWords);
  file["pre_tokenizer"] = {{"type", "WhitespaceSplit"}};
  EXPECT_EQ(refusal(file), kWords);
  file["pre_tokenizer"] = sequence_of("pretokenizers", {{{"type", "Punctuation"}}, kMetaspace});
  EXPECT_EQ(refusal(file), kWords);
  file["pre_tokenizer"] = kMetaspace;
  file["normalizer"] = kStrip;
  EXPECT_EQ(refusal(file), "it removes the spaces at the end of a text, and no repeated ones");
  file["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_EQ(refusal(file), "its normalizer is 'Lowercase'");
  file["normalizer"] = {{"type", "Strip"}, {"strip_left", true}, {"strip_right", false}};
  EXPECT_EQ(refusal(file), "its normalizer is 'Strip'");
  file["normalizer"] = kSqueeze;
  file["normalizer"]["content"] = "x";
  EXPECT_EQ(refusal(file), "its normalizer is 'Replace'");
  file = unigram_file();
  file["pre_tokenizer"]["pretokenizers"][1]["replacement"] = "_";
  EXPECT_EQ(refusal(file), "it marks spaces otherwise");
}

TEST(GgufUnigramTest, OtherVocabulariesAreRefused) {
  json file = unigram_file();
  file["model"]["vocab"][6] = {"▁a▁b", -4.25};
  EXPECT_EQ(refusal(file), "it has tokens across spaces, at which it splits");
  file = unigram_file();
  file["model"]["vocab"][1][1] = -9;
  EXPECT_EQ(refusal(file),
            "its lowest score is a special token's, and llama.cpp scores unknown characters by "
            "normal ones");
  file = unigram_file();
  file["model"]["byte_fallback"] = true;
  EXPECT_EQ(refusal(file), "it has byte fallback, which llama.cpp's Unigram lacks");
  file = unigram_file();
  file["model"]["unk_id"] = nullptr;
  EXPECT_EQ(refusal(file), "it has no unknown token");
}

TEST(GgufUnigramTest, WithoutAnEndTokenLlamaCppHasAnother) {
  json file = unigram_file();
  EXPECT_FALSE(has_note(read(file), "the tokenizer has no end-of-sequence token"));
  file["post_processor"] = nullptr;
  file["added_tokens"][1]["content"] = file["model"]["vocab"][1][0] = "[x]";
  EXPECT_TRUE(
      has_note(read(file),
               "the tokenizer has no end-of-sequence token: llama.cpp uses its default, 1 '[x]'"));
}

TEST(GgufUnigramTest, SentencePieceFilesHaveTheirOwnScoresAndCharacters) {
  const GgufTokenizer found = gguf_tokenizer(golden("unigram.model"), 210);
  EXPECT_EQ(value<std::string>(found, "model"), "t5");
  EXPECT_EQ(value<std::vector<uint8_t>>(found, "precompiled_charsmap").size(), 1107U);
  EXPECT_EQ(value<uint32_t>(found, "unknown_token_id"), 0U);
  EXPECT_TRUE(value<bool>(found, "add_space_prefix"));
  EXPECT_TRUE(value<bool>(found, "remove_extra_whitespaces"));
  const auto scores = value<std::vector<float>>(found, "scores");
  ASSERT_EQ(scores.size(), 210U);
  EXPECT_LT(scores[100], 0);
  EXPECT_FALSE(has_note(found, "user-defined"));
  EXPECT_TRUE(
      has_note(gguf_tokenizer(golden("unigram_own.model"), 200),
               "llama.cpp normalizes the texts before and after a user-defined piece separately"));
}

TEST(GgufUnigramTest, OtherSentencePieceFilesAreRefused) {
  const auto reason = [](const char* name) {
    return complaint([&] { gguf_tokenizer(golden(name), 600); });
  };
  EXPECT_NE(reason("unigram_bytes.model").find("unigram_bytes.model': it has byte fallback"),
            std::string::npos);
  EXPECT_NE(reason("unigram_unused.model").find("it has unused pieces"), std::string::npos);
}

}  // namespace
}  // namespace accel::gguf_unigram_test
