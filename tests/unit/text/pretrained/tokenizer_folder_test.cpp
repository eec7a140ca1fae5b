// Tokenizer folders: what transformers' AutoTokenizer makes of them, which
// tests/interop/check_tokenizer_folders.py writes, and refusals.
#include "text/pretrained/tokenizer_folder.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"
#include "text/tokenizer.h"

namespace accel::tokenizer_folder_test {
namespace {

using nlohmann::json;
using Ids = std::vector<int32_t>;

json golden_file(const std::string& name) {
  const std::string folder = std::getenv("ACCEL_SOURCE_DIR");
  std::ifstream file(folder + "/tests/unit/text/golden/" + name);
  return json::parse(file);
}

void write_files(const TempFolder& folder, const json& source, const json& files) {
  json file = source;
  for (const auto& [name, value] : files.items()) {
    if (name == "tokenizer.json") {
      file.merge_patch(value);
    } else {
      folder.write(name, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }
  if (!file.is_null()) folder.write("tokenizer.json", file.dump());
}

/// The ids of special tokens by their names.
json special_ids(const Tokenizer& tokenizer) {
  const SpecialTokens& special = tokenizer.special();
  json ids = json::object();
  const std::pair<const char*, std::optional<int32_t>> roles[] = {
      {"pad", special.pad},   {"bos", special.bos}, {"eos", special.eos}, {"unk", special.unk},
      {"mask", special.mask}, {"cls", special.cls}, {"sep", special.sep}};
  for (const auto& [name, id] : roles) {
    if (id) ids[name] = *id;
  }
  return ids;
}

void expect_case(const json& expected, const std::vector<std::string>& texts) {
  const TempFolder folder;
  const std::string source = expected["source"].get<std::string>() + "/tokenizer.json";
  write_files(folder, golden_file(source), expected["files"]);
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->vocab_size(), expected["size"].get<int64_t>());
  for (const auto& [role, id] : expected["special"].items()) {
    EXPECT_EQ(special_ids(*tokenizer).value(role, -1), id.get<int32_t>()) << role;
  }
  for (size_t i = 0; i < texts.size(); ++i) {
    const Ids ids = tokenizer->encode(texts[i]);
    EXPECT_EQ(ids, expected["ids"][i].get<Ids>()) << texts[i];
    EXPECT_EQ(tokenizer->encode(texts[i], false), expected["plain"][i].get<Ids>()) << texts[i];
    if (i % 4 != 0) continue;
    const json& decoded = expected["decoded"][i / 4];
    EXPECT_EQ(tokenizer->decode(ids, false), decoded[0].get<std::string>()) << texts[i];
    EXPECT_EQ(tokenizer->decode(ids, true), decoded[1].get<std::string>()) << texts[i];
  }
  const TokenPair pair = tokenizer->encode_pair("Hello world", "a <s>b</s> c");
  EXPECT_EQ(pair.ids, expected["pair"].get<Ids>());
  EXPECT_EQ(pair.types, expected["types"].get<Ids>());
}

TEST(TokenizerFolderTest, GivesWhatAutoTokenizerGives) {
  const json golden = golden_file("folders.json");
  const auto texts = golden["texts"].get<std::vector<std::string>>();
  ASSERT_GE(golden["cases"].size(), 60u);
  for (const json& expected : golden["cases"]) {
    SCOPED_TRACE(expected["name"].get<std::string>());
    expect_case(expected, texts);
  }
}

json small_file() {
  return json::parse(R"({"added_tokens": [{"id": 0, "content": "<s>", "special": true}],
    "pre_tokenizer": {"type": "WhitespaceSplit"},
    "model": {"type": "WordLevel", "unk_token": "<s>", "vocab": {"<s>": 0, "a": 1, "b": 2}}})");
}

/// The error of a folder of small_file() and other files, after its path, and its hint.
std::string refusal_of(const json& files) {
  const TempFolder folder;
  write_files(folder, small_file(), files);
  try {
    load_tokenizer(folder.path());
  } catch (const DataError& error) {
    const std::string said = error.what(), path = "'" + folder.path() + "/";
    EXPECT_TRUE(said.starts_with(path)) << said;
    return said.substr(path.size()) + (error.hint().empty() ? "" : "\n" + error.hint());
  }
  return "";
}

constexpr const char* kHint =
    "in Python, AutoTokenizer.from_pretrained(FOLDER).backend_tokenizer.save(FILE) writes the "
    "tokenizer.json that transformers builds; with it, set 'tokenizer_class' to "
    "'PreTrainedTokenizerFast'";
struct Refusal {
  json files;
  std::string said;  ///< after the file, before kHint
};

TEST(TokenizerFolderTest, RefusesWhatItCannotBuild) {
  const std::string config = "tokenizer_config.json': ";
  const Refusal refusals[] = {
      {{{"tokenizer_config.json", {{"tokenizer_class", "BertTokenizerFast"}}}},
       "'tokenizer_class' is 'BertTokenizerFast', whose model is WordPiece, but that of "
       "tokenizer.json is 'WordLevel'"},
      {{{"tokenizer.json", {{"model", {{"type", "WordPiece"}}}}},
        {"tokenizer_config.json", {{"tokenizer_class", "BertTokenizer"}, {"cls_token", nullptr}}}},
       "'cls_token' must be a token: the tokenizer's class needs it"},
      {{{"tokenizer.json", {{"model", {{"type", "Unigram"}}}}},
        {"tokenizer_config.json", {{"tokenizer_class", "T5Tokenizer"}}},
        {"special_tokens_map.json", {{"additional_special_tokens", {"<extra_id_0>"}}}}},
       "'extra_ids' is 100, but 'additional_special_tokens' has 1 of them"},
      {{{"tokenizer.json", {{"model", {{"type", "Unigram"}}}}},
        {"tokenizer_config.json", {{"tokenizer_class", "AlbertTokenizer"}}}},
       "tokenizer.json must have a 'post_processor' for AlbertTokenizer"},
      {{{"tokenizer_config.json", {{"auto_map", {{"AutoTokenizer", {"code.Own", nullptr}}}}}}},
       "'auto_map' names Python code of a tokenizer, which is not run"},
      {{{"tokenizer_config.json", {{"fast_tokenizer_files", {"tokenizer.4.json"}}}}},
       "'fast_tokenizer_files' names other files than tokenizer.json, which are not supported"},
      {{{"tokenizer_config.json", {{"split_special_tokens", "yes"}}}},
       "'split_special_tokens' must be true or false, not 'yes'"},
      {{{"tokenizer.json", {{"model", {{"vocab", {{"b", 7}}}}}}},
        {"tokenizer_config.json", {{"eos_token", "<e>"}}}},
       "the ids of tokenizer.json's vocabulary have gaps, so that the id of the added token '<e>' "
       "is not defined"},
  };
  for (const Refusal& refusal : refusals) {
    EXPECT_EQ(refusal_of(refusal.files), config + refusal.said + "\n" + kHint);
  }
}

TEST(TokenizerFolderTest, WarnsOfClassesWithoutAPipeline) {
  const std::pair<json, const char*> classes[] = {
      {{{"tokenizer_config.json", {{"tokenizer_class", "CLIPTokenizer"}}}},
       "'tokenizer_class' is 'CLIPTokenizer'"},
      {{{"config.json", {{"model_type", "whisper"}}}}, "'model_type' of config.json is 'whisper'"},
      {{{"config.json", {{"tokenizer_class", "XLNetTokenizer"}}}},
       "'tokenizer_class' of config.json is 'XLNetTokenizer'"},
  };
  for (const auto& [files, source] : classes) {
    testing::internal::CaptureStderr();
    EXPECT_EQ(refusal_of(files), "");
    EXPECT_NE(testing::internal::GetCapturedStderr().find(
                  std::string(source) +
                  ": texts are tokenized as tokenizer.json says; transformers 5 builds its "
                  "tokenizer from the class, which may differ"),
              std::string::npos)
        << source;
  }
}

TEST(TokenizerFolderTest, RefusesMalformedTokens) {
  const std::pair<json, const char*> refusals[] = {
      {{{"tokenizer_config.json", {{"eos_token", 7}}}},
       "tokenizer_config.json': 'eos_token' must be a string, not 7"},
      {{{"special_tokens_map.json", {{"eos_token", {{"special", true}}}}}},
       "special_tokens_map.json': 'eos_token.content' is missing"},
      {{{"tokenizer_config.json", {{"extra_special_tokens", {3}}}}},
       "tokenizer_config.json': 'extra_special_tokens[0]' must be a string, not 3"},
      {{{"tokenizer_config.json", {{"model_specific_special_tokens", {"<i>"}}}}},
       "tokenizer_config.json': 'model_specific_special_tokens' must be an object that maps names "
       "to tokens"},
      {{{"tokenizer_config.json", {{"added_tokens_decoder", {{"x", {{"content", "c"}}}}}}}},
       "tokenizer_config.json': 'added_tokens_decoder.x' has no id for its key"},
      {{{"tokenizer_config.json", {{"added_tokens_decoder", {"c"}}}}},
       "tokenizer_config.json': 'added_tokens_decoder' must be an object that maps ids to tokens"},
      {{{"tokenizer_config.json", {{"init_inputs", {"c"}}}}},
       "tokenizer_config.json': 'init_inputs' is not supported"},
      {{{"added_tokens.json", {{"<i>", "0"}}}},
       "added_tokens.json': '<i>' must be an integer from 0 to 2147483646, not '0'"},
  };
  for (const auto& [files, said] : refusals) EXPECT_EQ(refusal_of(files), said);
}

TEST(TokenizerFolderTest, FilesThatDecideCountForTheDigest) {
  const TempFolder plain, by_model, with_tokens;
  write_files(plain, small_file(), json::object());
  write_files(by_model, small_file(), {{"config.json", {{"model_type", "llama"}}}});
  write_files(with_tokens, small_file(), {{"added_tokens.json", {{"<i>", 3}}}});
  const std::string digest = load_tokenizer(plain.path())->digest();
  EXPECT_EQ(load_tokenizer(by_model.path())->digest(), digest) << "the file as it is";
  EXPECT_NE(load_tokenizer(with_tokens.path())->digest(), digest);
}

/// Of a folder without tokenizer.json.
std::string vocabulary_refusal(const std::map<std::string, std::string>& files) {
  const TempFolder folder;
  for (const auto& [name, content] : files) folder.write(name, content);
  try {
    load_tokenizer(folder.path());
  } catch (const DataError& error) {
    std::string message = std::string(error.what()) + "; " + error.hint();
    for (size_t at; (at = message.find(folder.path())) != message.npos;) {
      message.replace(at, folder.path().size(), "F");
    }
    return message;
  }
  return "";
}

TEST(TokenizerFolderTest, DamagedVocabulariesAreRefused) {
  const std::string gpt2 = R"({"tokenizer_class": "GPT2Tokenizer"})";
  const std::string bert = R"({"tokenizer_class": "BertTokenizer"})";
  EXPECT_EQ(vocabulary_refusal({{"tokenizer_config.json", gpt2},
                                {"vocab.json", R"({"a": 0, "b": 1, "ab": 2})"},
                                {"merges.txt", "#version: 0.2\na b\nab\n"}}),
            "'F/merges.txt' has no pair of tokens in line 3; a merge is two tokens with a space "
            "between them");
  EXPECT_EQ(vocabulary_refusal({{"tokenizer_config.json", gpt2},
                                {"vocab.json", "[]"},
                                {"merges.txt", "#version: 0.2\n"}})
                .find("'F/vocab.json': "),
            0u);
  EXPECT_EQ(vocabulary_refusal({{"tokenizer_config.json", bert}, {"vocab.txt", "[UNK]\n\xe9\n"}}),
            "'F/vocab.txt' is not UTF-8; convert it: iconv -f latin1 -t utf-8 F/vocab.txt > "
            "utf8.txt");
  const std::string hint =
      "; in Python, AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes it";
  EXPECT_EQ(vocabulary_refusal({{"tokenizer_config.json", gpt2}, {"vocab.json", "{}"}}),
            "'F' has no 'tokenizer.json', only 'vocab.json'" + hint);
  EXPECT_EQ(vocabulary_refusal({{"tokenizer_config.json", gpt2}, {"vocab.txt", "a\n"}}),
            "'F' has no 'tokenizer.json', only 'vocab.txt'" + hint);
}

TEST(TokenizerFolderTest, AVocabularyWithoutAClassNeedsATokenizerJson) {
  const TempFolder folder;
  folder.write("vocab.txt", "a\nb\n");
  try {
    load_tokenizer(folder.path());
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(), "'" + folder.path() + "' has no 'tokenizer.json', only 'vocab.txt'");
    EXPECT_EQ(error.hint(),
              "in Python, AutoTokenizer.from_pretrained(FOLDER).save_pretrained(FOLDER) writes it");
  }
}

}  // namespace
}  // namespace accel::tokenizer_folder_test
