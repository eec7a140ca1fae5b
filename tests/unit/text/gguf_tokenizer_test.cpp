// Tokenizers as metadata of GGUF files.
#include "text/gguf_tokenizer.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::gguf_tokenizer_test {
namespace {

using nlohmann::json;

constexpr auto kThreeDigits =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

json byte_level(bool splits) {
  return {{"type", "ByteLevel"}, {"add_prefix_space", false}, {"use_regex", splits}};
}

/// GPT-2's kind, with the tokens <s>, a, b, ab and the added token "[u]" at 5.
json byte_level_file() {
  json file = json::parse(R"({"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [
      {"id": 0, "content": "<s>", "special": true},
      {"id": 5, "content": "[u]", "normalized": false, "special": false}],
    "normalizer": null, "post_processor": null, "decoder": {"type": "ByteLevel"},
    "model": {"type": "BPE", "vocab": {"<s>": 0, "a": 1, "b": 2, "ab": 3},
              "merges": [["a", "b"]]}})");
  file["pre_tokenizer"] = byte_level(true);
  return file;
}

json sequence(const json& first, const json& last) {
  return {{"type", "Sequence"}, {"pretokenizers", {first, last}}};
}

json split_at(const std::string& pattern) {
  return sequence({{"type", "Split"},
                   {"pattern", {{"Regex", pattern}}},
                   {"behavior", "Isolated"},
                   {"invert", false}},
                  byte_level(false));
}

/// SentencePiece's kind: <unk>, <s>, </s>, 256 bytes, then the `pieces`.
json marked_file(const std::vector<std::string>& pieces, const std::string& merges) {
  json file = json::parse(R"({"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 0, "content": "<unk>", "special": true},
                     {"id": 1, "content": "<s>", "special": true},
                     {"id": 2, "content": "</s>", "special": true}],
    "normalizer": {"type": "Sequence", "normalizers": [
       {"type": "Prepend", "prepend": "▁"},
       {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}]},
    "pre_tokenizer": null,
    "post_processor": {"type": "TemplateProcessing",
       "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}},
                  {"Sequence": {"id": "A", "type_id": 0}}],
       "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
       "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}},
    "decoder": null,
    "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true,
              "vocab": {"<unk>": 0, "<s>": 1, "</s>": 2}}})");
  json& vocab = file["model"]["vocab"];
  constexpr auto kHex = "0123456789ABCDEF";
  for (int i = 0; i < 256; ++i) {
    vocab[std::string("<0x") + kHex[i / 16] + kHex[i % 16] + ">"] = 3 + i;
  }
  for (const std::string& piece : pieces) vocab[piece] = vocab.size();
  file["model"]["merges"] = json::parse(merges);
  return file;
}

GgufTokenizer read(const json& file, int64_t rows, const json& config = json::object()) {
  const TempFolder folder;
  folder.write("tokenizer.json", file.dump());
  folder.write("tokenizer_config.json", config.dump());
  return gguf_tokenizer(folder.path(), rows);
}

/// The value of a field, of "tokenizer.ggml." without another prefix.
template <class T>
T value(const GgufTokenizer& tokenizer, const std::string& key) {
  for (const GgufField& field : tokenizer.fields) {
    if (field.key == "tokenizer.ggml." + key || field.key == key) return std::get<T>(field.value);
  }
  ADD_FAILURE() << "no " << key;
  return {};
}

bool has(const GgufTokenizer& tokenizer, const std::string& key) {
  for (const GgufField& field : tokenizer.fields) {
    if (field.key == "tokenizer.ggml." + key || field.key == key) return true;
  }
  return false;
}

/// The reason in the refusal of a file, which names the file and llama.cpp's kinds.
std::string refusal(const json& file) {
  const std::string found = complaint([&] { read(file, 400); });
  constexpr std::string_view kFirst = "tokenizer.json': ";
  const size_t start = found.find(kFirst);
  EXPECT_TRUE(found.starts_with("llama.cpp has no such tokenizer as '")) << found;
  EXPECT_TRUE(found.ends_with(
      "\nit has byte-level BPE with the splits 'gpt-2', 'smollm', 'llama-bpe', 'dbrx', 'qwen2', "
      "'tekken', SentencePiece's BPE with byte fallback, and Unigram"))
      << found;
  return start == found.npos
             ? found
             : found.substr(start + kFirst.size(), found.find('\n') - start - kFirst.size());
}

TEST(GgufTokenizerTest, ByteLevelBpeHasItsTokensAndMerges) {
  const GgufTokenizer found =
      read(byte_level_file(), 8, {{"bos_token", "<s>"}, {"chat_template", "{{ messages }}"}});
  EXPECT_EQ(value<std::string>(found, "model"), "gpt2");
  EXPECT_EQ(value<std::string>(found, "pre"), "gpt-2");
  EXPECT_EQ(value<std::vector<std::string>>(found, "tokens"),
            (std::vector<std::string>{"<s>", "a", "b", "ab", "[u]", "[PAD5]", "[PAD6]", "[PAD7]"}));
  EXPECT_EQ(value<std::vector<int32_t>>(found, "token_type"),
            (std::vector<int32_t>{3, 1, 1, 1, 4, 5, 5, 5}));
  EXPECT_EQ(value<std::vector<std::string>>(found, "merges"), (std::vector<std::string>{"a b"}));
  EXPECT_EQ(value<uint32_t>(found, "bos_token_id"), 0U);
  EXPECT_EQ(value<std::string>(found, "tokenizer.chat_template"), "{{ messages }}");
  EXPECT_FALSE(value<bool>(found, "add_bos_token"));
  EXPECT_FALSE(value<bool>(found, "add_eos_token"));
  EXPECT_FALSE(value<bool>(found, "add_space_prefix"));
  EXPECT_FALSE(has(found, "scores"));
  EXPECT_FALSE(has(found, "eos_token_id"));
  EXPECT_TRUE(found.notes.empty());
}

TEST(GgufTokenizerTest, SplitsAreLlamaCppsByName) {
  const std::string two_digits =
      std::string(kThreeDigits).replace(std::string(kThreeDigits).find("{1,3}"), 5, "");
  const json digits = {{"type", "Digits"}, {"individual_digits", true}};
  const std::tuple<json, bool, const char*> cases[] = {
      {byte_level(true), false, "gpt-2"},
      {sequence(digits, byte_level(true)), false, "smollm"},
      {split_at(kThreeDigits), true, "llama-bpe"},
      {split_at(kThreeDigits), false, "dbrx"},
      {split_at(two_digits), false, "qwen2"}};
  for (const auto& [splits, ignore_merges, name] : cases) {
    json file = byte_level_file();
    file["pre_tokenizer"] = splits;
    file["model"]["ignore_merges"] = ignore_merges;
    EXPECT_EQ(value<std::string>(read(file, 6), "pre"), name);
  }
}

TEST(GgufTokenizerTest, OtherSplitsAreRefused) {
  json file = byte_level_file();
  file["model"]["ignore_merges"] = true;
  EXPECT_EQ(refusal(file),
            "its 'pre_tokenizer' and 'ignore_merges' are none of llama.cpp's: "
            R"({"add_prefix_space":false,"type":"ByteLevel","use_regex":true})");
  const json others[] = {
      {{"type", "ByteLevel"}, {"add_prefix_space", true}},
      {{"type", "WhitespaceSplit"}},
      split_at("a+"),
      sequence({{"type", "Digits"}, {"individual_digits", false}}, byte_level(true))};
  for (const json& splits : others) {
    file = byte_level_file();
    file["pre_tokenizer"] = splits;
    EXPECT_EQ(refusal(file),
              "its 'pre_tokenizer' and 'ignore_merges' are none of llama.cpp's: " + splits.dump());
  }
}

TEST(GgufTokenizerTest, NormalizersAreNotedOrRefused) {
  json file = byte_level_file();
  file["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(read(file, 6).notes,
            (std::vector<std::string>{"llama.cpp does not compose characters as the tokenizer does "
                                      "(NFC)"}));
  file["normalizer"] = {{"type", "Lowercase"}};
  EXPECT_EQ(refusal(file), "its normalizer is 'Lowercase'");
  file = byte_level_file();
  file["added_tokens"][1]["lstrip"] = true;
  EXPECT_EQ(read(file, 6).notes,
            (std::vector<std::string>{"llama.cpp finds the token '[u]' without regard to the "
                                      "characters beside it (lstrip, rstrip, single_word)"}));
}

TEST(GgufTokenizerTest, SentencePieceHasScoresInTheOrderOfTheMerges) {
  const GgufTokenizer found = read(marked_file({"▁", "a", "b", "▁a", "ab", "▁ab"},
                                               R"([["▁a", "b"], ["▁", "ab"], ["▁", "a"], "a b"])"),
                                   300);
  EXPECT_EQ(value<std::string>(found, "model"), "llama");
  EXPECT_EQ(value<std::string>(found, "pre"), "default");
  const auto tokens = value<std::vector<std::string>>(found, "tokens");
  const auto types = value<std::vector<int32_t>>(found, "token_type");
  const auto scores = value<std::vector<float>>(found, "scores");
  ASSERT_EQ(tokens.size(), 300U);
  EXPECT_EQ((std::vector<int32_t>{types[0], types[1], types[2], types[3], types[259], types[265]}),
            (std::vector<int32_t>{2, 3, 3, 6, 1, 5}));
  EXPECT_EQ(tokens[258], "<0xFF>");
  EXPECT_EQ(tokens[264], "▁ab");
  EXPECT_EQ((std::vector<float>{scores[262], scores[263], scores[264]}),
            (std::vector<float>{-2, -3, 0}));
  EXPECT_TRUE(value<bool>(found, "add_space_prefix"));
  EXPECT_TRUE(value<bool>(found, "add_bos_token"));
  EXPECT_EQ(value<uint32_t>(found, "bos_token_id"), 1U);
  EXPECT_EQ(value<uint32_t>(found, "unknown_token_id"), 0U);
  EXPECT_FALSE(has(found, "merges"));
}

TEST(GgufTokenizerTest, MergesThatNoScoresGiveAreRefused) {
  EXPECT_EQ(refusal(marked_file({"a", "b", "c", "ab", "bc", "abc"},
                                R"([["a", "b"], ["b", "c"], ["ab", "c"]])")),
            "its rules lack pairs that llama.cpp joins, neighbours whose text is a token: 1 in "
            "all, the first of 'abc'");
  EXPECT_EQ(refusal(marked_file({"a", "b", "c", "ab", "bc", "abc"},
                                R"([["ab", "c"], ["a", "b"], ["a", "bc"], ["b", "c"]])")),
            "its rules join 'abc' early and late, and llama.cpp ranks tokens, not rules");
}

TEST(GgufTokenizerTest, OtherModelsAreRefused) {
  json file = byte_level_file();
  file["model"] = json::parse(R"({"type": "WordLevel", "unk_token": "<s>", "vocab": {"<s>": 0}})");
  EXPECT_EQ(refusal(file), "its model is 'WordLevel'");
  file = marked_file({"a"}, "[]");
  file["normalizer"] = nullptr;
  EXPECT_EQ(refusal(file), "its 'pre_tokenizer' is absent");
  file = marked_file({"▁", "a"}, "[]");
  file["model"]["vocab"].erase("<0x41>");
  EXPECT_EQ(refusal(file), "it has 255 of 256 byte tokens");
  file = byte_level_file();
  file["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"a", 1}}, {"cls", {"<s>", 0}}};
  EXPECT_TRUE(value<bool>(read(file, 6), "add_eos_token"));
}

TEST(GgufTokenizerTest, MoreTokensThanRowsAreRefused) {
  const TempFolder folder;
  const std::string path = folder.write("tokenizer.json", byte_level_file().dump());
  EXPECT_EQ(complaint([&] { gguf_tokenizer(path, 4); }),
            text("the tokenizer '{}' has 5 tokens, and the model's embedding 4 rows\n"
                 "export with the tokenizer that the model was trained with",
                 path));
}

TEST(GgufTokenizerTest, ARefusalNamesTheFileAndLlamaCppsKinds) {
  json file = byte_level_file();
  file["model"]["end_of_word_suffix"] = "</w>";
  const TempFolder folder;
  const std::string path = folder.write("tokenizer.json", file.dump());
  EXPECT_EQ(complaint([&] { gguf_tokenizer(path, 9); }),
            text("llama.cpp has no such tokenizer as '{}': its model has 'end_of_word_suffix'\n"
                 "it has byte-level BPE with the splits 'gpt-2', 'smollm', 'llama-bpe', 'dbrx', "
                 "'qwen2', 'tekken', SentencePiece's BPE with byte fallback, and Unigram",
                 path));
}

TEST(GgufTokenizerTest, SentencePieceFilesHaveTheirOwnScores) {
  const std::string golden =
      std::string(std::getenv("ACCEL_SOURCE_DIR")) + "/tests/unit/text/golden/sentencepiece/";
  const GgufTokenizer found = gguf_tokenizer(golden + "bpe_bytes.model", 600);
  EXPECT_EQ(value<std::string>(found, "model"), "llama");
  EXPECT_EQ(value<std::vector<float>>(found, "scores").size(), 600U);
  EXPECT_NE(
      complaint([&] { gguf_tokenizer(golden + "bpe.model", 600); }).find("it has no byte fallback"),
      std::string::npos);
}

}  // namespace
}  // namespace accel::gguf_tokenizer_test
