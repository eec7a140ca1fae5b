// Refused tokenizer.json files and their error messages.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "tests/unit/formats/temp_folder.h"
#include "text/token_model.h"
#include "text/tokenizer.h"

namespace accel::refusal_test {
namespace {

using nlohmann::json;

json good_file() {
  return json::parse(R"({"version": "1.0", "truncation": null, "padding": null,
    "added_tokens": [{"id": 0, "content": "<s>", "single_word": false, "lstrip": false,
                      "rstrip": false, "normalized": false, "special": true}],
    "normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "WhitespaceSplit"},
    "post_processor": null, "decoder": {"type": "Fuse"},
    "model": {"type": "BPE", "dropout": null, "unk_token": "<s>", "vocab":
              {"<s>": 0, "a": 1, "b": 2, "ab": 3}, "merges": [["a", "b"]]}})");
}

/// The error of loading the file.
std::string refusal_of(const std::string& text) {
  const TempFolder folder;
  const std::string path = folder.write("tokenizer.json", text);
  try {
    load_tokenizer(folder.path());
  } catch (const DataError& error) {
    const std::string said = error.what();
    EXPECT_TRUE(said.starts_with("'" + path + "': ")) << said;
    return said.substr(path.size() + 4);
  }
  return "";
}

struct Refusal {
  const char* pointer;  ///< a JSON pointer
  const char* value;
  const char* said;
};

constexpr Refusal kRefusals[] = {
    {"/model/type", R"("Fancy")",
     "'model.type' is 'Fancy', which is not supported; supported: BPE, WordPiece, WordLevel, "
     "Unigram"},
    {"/model/dropout", "0.1",
     "'model.dropout' must be null: dropout makes ids random, which is not supported"},
    {"/model/surprise", "1", "'model.surprise' is not supported"},
    {"/model/merges/0", R"("a b c")", "'model.merges[0]' must be two tokens"},
    {"/model/merges/0", R"(["a", "c"])",
     "'model.merges[0]' names 'ac', which is not in the vocabulary"},
    {"/model/vocab/a", "-1", "'model.vocab.a' must be an integer from 0 to 100004, not -1"},
    {"/model/vocab/a", "200000", "'model.vocab.a' must be an integer from 0 to 100004, not 200000"},
    {"/model/vocab/a", "2", "'model.vocab' gives id 2 to 'a' and to 'b'"},
    {"/version", R"("2.0")", "'version' must be '1.0'"},
    {"/truncation", R"({"max_length": 5})", "'truncation.strategy' is missing"},
    {"/truncation", R"({"max_length": 0, "strategy": "LongestFirst", "stride": 0})",
     "'truncation.max_length' must be an integer from 1 to 2147483647, not 0"},
    {"/truncation", R"({"max_length": 5, "strategy": "Shortest", "stride": 0})",
     "'truncation.strategy' must be 'LongestFirst', 'OnlyFirst' or 'OnlySecond'"},
    {"/truncation", R"({"max_length": 5, "strategy": "OnlyFirst", "stride": 5})",
     "'truncation.stride' must be less than the 5 tokens that 'max_length' leaves for a text"},
    {"/truncation", R"({"max_length": 5, "strategy": "OnlyFirst", "stride": 0, "direction": "Up"})",
     "'truncation.direction' must be 'Left' or 'Right'"},
    {"/truncation", R"({"max_length": 5, "strategy": "OnlyFirst", "stride": 0, "side": 1})",
     "'truncation.side' is not supported"},
    {"/padding", R"({"strategy": "Longest", "pad_id": 0, "pad_type_id": 0, "pad_token": "a"})",
     "'padding.strategy' must be 'BatchLongest' or {'Fixed': LENGTH}"},
    {"/padding", R"({"strategy": {"Fixed": -1}, "pad_id": 0, "pad_type_id": 0, "pad_token": "a"})",
     "'padding.strategy.Fixed' must be an integer from 0 to 2147483647, not -1"},
    {"/padding",
     R"({"strategy": "BatchLongest", "pad_to_multiple_of": 0, "pad_id": 0, "pad_type_id": 0,
         "pad_token": "a"})",
     "'padding.pad_to_multiple_of' must be an integer from 1 to 2147483647, not 0"},
    {"/padding", R"({"strategy": "BatchLongest", "pad_id": 0, "pad_type_id": 0})",
     "'padding.pad_token' is missing"},
    {"/normalizer", R"({"type": "Magic"})",
     "'normalizer.type' is 'Magic', which is not supported; supported: BertNormalizer, "
     "ByteLevel, Lowercase, NFC, NFD, NFKC, NFKD, Nmt, Precompiled, Prepend, Replace, Sequence, "
     "Strip, StripAccents"},
    {"/normalizer", R"({"type": "NFC", "form": 3})", "'normalizer.form' is not supported"},
    {"/normalizer", R"j({"type": "Sequence", "normalizers": [{"type": "Replace",
        "pattern": {"Regex": "a(*SKIP)"}, "content": ""}]})j",
     "'normalizer.normalizers[0].pattern.Regex' has '(*', which is not supported"},
    {"/normalizer", R"({"type": "Precompiled", "precompiled_charsmap": "AAA"})",
     "'normalizer.precompiled_charsmap' is not a SentencePiece character map"},
    {"/pre_tokenizer", R"({"type": "UnicodeScripts"})",
     "'pre_tokenizer.type' is 'UnicodeScripts', which is not supported; supported: "
     "BertPreTokenizer, ByteLevel, CharDelimiterSplit, Digits, FixedLength, Metaspace, "
     "Punctuation, Sequence, Split, Whitespace, WhitespaceSplit"},
    {"/pre_tokenizer", R"({"type": "Split", "pattern": {"Regex": "("}, "behavior": "Isolated"})",
     "'pre_tokenizer.pattern.Regex' is not a regular expression: missing closing parenthesis"},
    {"/pre_tokenizer", R"({"type": "Split", "pattern": {"String": "a"}, "behavior": "Glued"})",
     "'pre_tokenizer.behavior' must be Removed, Isolated, MergedWithPrevious, MergedWithNext or "
     "Contiguous"},
    {"/pre_tokenizer", R"({"type": "Metaspace", "replacement": "__"})",
     "'pre_tokenizer.replacement' must be one character, not '__'"},
    {"/post_processor", R"({"type": "TemplateProcessing", "single": [{"Sequence":
        {"id": "C", "type_id": 0}}], "pair": [], "special_tokens": {}})",
     "'post_processor.single[0].Sequence.id' must be A or B"},
    {"/post_processor", R"({"type": "TemplateProcessing", "single": [{"SpecialToken":
        {"id": "[X]", "type_id": 0}}], "pair": [], "special_tokens": {}})",
     "'post_processor.special_tokens.[X]' is missing"},
    {"/decoder", R"({"type": "CTC"})",
     "'decoder.type' is 'CTC', which is not supported; supported: BPEDecoder, ByteFallback, "
     "ByteLevel, Fuse, Metaspace, Replace, Sequence, Strip, WordPiece"},
    {"/added_tokens/0/id", "3",
     "'added_tokens[0]' has the id 3, but the model's '<s>' has the id 0"},
    {"/added_tokens/0/content", R"("new")",
     "'added_tokens[0]' has the id 0, but the model's '<s>' has the id 0"},
    {"/added_tokens", R"([{"id": 9, "content": "<t>", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true}, {"id": 9, "content": "<u>",
        "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": true}])",
     "'added_tokens[1]' has the id 9 of another token"},
    {"/added_tokens", R"([{"id": 9, "content": "<t>", "single_word": false, "lstrip": false,
        "rstrip": false, "normalized": false, "special": true}, {"id": 10, "content": "<t>",
        "single_word": false, "lstrip": false, "rstrip": false, "normalized": false,
        "special": true}])",
     "'added_tokens[1]' repeats the token '<t>'"},
    {"/added_tokens/0/lstrip", "1", "'added_tokens[0].lstrip' must be true or false, not 1"},
    {"/extra", "{}", "'extra' is not supported"},
};

TEST(TokenizerRefusalTest, NamesThePathOfUnsupportedValues) {
  EXPECT_EQ(refusal_of(good_file().dump()), "");
  for (const Refusal& refusal : kRefusals) {
    json file = good_file();
    file[json::json_pointer(refusal.pointer)] = json::parse(refusal.value);
    EXPECT_EQ(refusal_of(file.dump()), refusal.said);
  }
}

TEST(TokenizerRefusalTest, FilesThatAreNotAnObject) {
  EXPECT_EQ(refusal_of("{"), "the text is not JSON");
  EXPECT_EQ(refusal_of("[]"), "the text is not a JSON object");
  EXPECT_EQ(refusal_of("{}"), "'model' is missing");
  EXPECT_EQ(refusal_of(R"({"model": 1, "model": 2})"), "the text has \"model\" twice");
}

TEST(TokenizerRefusalTest, FoldersWithoutOne) {
  const TempFolder folder;
  try {
    load_tokenizer(folder.path());
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(), "'" + folder.path() + "' has no 'tokenizer.json'");
    EXPECT_EQ(error.hint(), "'accel-run tokenizer train' makes one");
  }
}

TEST(TokenizerRefusalTest, TheMapOfSpecialTokensWinsAndCountsForTheDigest) {
  const TempFolder folder;
  folder.write("tokenizer.json", good_file().dump());
  const std::string before = load_tokenizer(folder.path())->digest();
  EXPECT_EQ(before.size(), 16u);
  EXPECT_EQ(load_tokenizer(folder.path("tokenizer.json"))->digest(), before);
  folder.write("special_tokens_map.json", R"({"pad_token": "a"})");
  folder.write("tokenizer_config.json",
               R"({"pad_token": {"content": "ab"}, "eos_token": "b", "model_max_length": 9})");
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->special().pad, 1);
  EXPECT_EQ(tokenizer->special().eos, 2);
  EXPECT_EQ(tokenizer->special().bos, std::nullopt) << "files name tokens, but not this one";
  EXPECT_NE(tokenizer->digest(), before);
  folder.write("tokenizer_config.json", R"({"pad_token": {"content": "ab"}, "bos_token": null,
                                            "added_tokens_decoder": {}})");
  const auto newer = load_tokenizer(folder.path());
  EXPECT_EQ(newer->special().pad, 3) << "the map is not read beside added_tokens_decoder";
  EXPECT_EQ(newer->special().bos, std::nullopt) << "null is no token, whatever the vocabulary has";
}

TEST(TokenizerRefusalTest, TruncationMustLeaveRoomBesideSpecialTokens) {
  json file = good_file();
  file["post_processor"] = {{"type", "BertProcessing"}, {"sep", {"a", 1}}, {"cls", {"b", 2}}};
  file["truncation"] = {{"max_length", 2}, {"strategy", "LongestFirst"}, {"stride", 0}};
  EXPECT_EQ(refusal_of(file.dump()),
            "'truncation.max_length' leaves no room for a text: 2 special tokens are added");
}

TEST(TokenizerLengthTest, TruncationAndPaddingAreReadButNotApplied) {
  json file = good_file();
  const TempFolder folder;
  folder.write("tokenizer.json", file.dump());
  const auto plain = load_tokenizer(folder.path());
  EXPECT_FALSE(plain->truncation());
  EXPECT_FALSE(plain->padding());
  EXPECT_FALSE(plain->special().pad);
  file["truncation"] = {
      {"max_length", 3}, {"strategy", "OnlyFirst"}, {"stride", 1}, {"direction", "Left"}};
  file["padding"] = {{"strategy", {{"Fixed", 7}}}, {"direction", "Left"},
                     {"pad_to_multiple_of", 4},    {"pad_id", 3},
                     {"pad_type_id", 0},           {"pad_token", "ab"}};
  folder.write("tokenizer.json", file.dump());
  const auto asking = load_tokenizer(folder.path());
  EXPECT_EQ(asking->truncation(),
            (TruncationConfig{
                .max_length = 3, .strategy = TruncationStrategy::kOnlyFirst, .from_left = true}));
  ASSERT_TRUE(asking->padding());
  EXPECT_EQ(asking->padding()->fixed, 7);
  EXPECT_EQ(asking->padding()->multiple, 4);
  EXPECT_TRUE(asking->padding()->on_left);
  EXPECT_EQ(asking->special().pad, 3) << "from the padding";
  EXPECT_EQ(asking->encode("a b a b a"), plain->encode("a b a b a"));
  file["padding"]["pad_id"] = 2;
  file["padding"]["strategy"] = "BatchLongest";
  file["truncation"] = {{"max_length", 3}, {"strategy", "LongestFirst"}, {"stride", 0}};
  folder.write("tokenizer.json", file.dump());
  const auto other = load_tokenizer(folder.path());
  EXPECT_EQ(other->special().pad, 3) << "by the token, as in transformers, not by the id";
  EXPECT_FALSE(other->padding()->fixed);
  EXPECT_EQ(other->truncation(), TruncationConfig{.max_length = 3});
}

TEST(TokenizerRefusalTest, UnknownWordsWithoutAnUnknownToken) {
  json file = good_file();
  file["model"] = {{"type", "WordLevel"}, {"vocab", {{"<s>", 0}, {"a", 1}}}, {"unk_token", "?"}};
  const TempFolder folder;
  folder.write("tokenizer.json", file.dump());
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->encode("A a"), (std::vector<int32_t>{1, 1}));
  try {
    tokenizer->encode("a zebra");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "the tokenizer has no token for 'zebra' and no unknown token");
  }
}

TEST(TokenizerRefusalTest, UnknownTokensMissingFromTheVocabulary) {
  json file = good_file();
  file["model"]["unk_token"] = "";
  const TempFolder folder;
  folder.write("tokenizer.json", file.dump());
  EXPECT_EQ(load_tokenizer(folder.path())->encode("abba"), (std::vector<int32_t>{3, 2, 1}));
  try {
    load_tokenizer(folder.path())->encode("abc");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(), "the tokenizer has no token for 'c' and no unknown token");
  }
  file["model"]["unk_token"] = nullptr;
  folder.write("tokenizer.json", file.dump());
  EXPECT_EQ(load_tokenizer(folder.path())->encode("abc"), std::vector<int32_t>{3});
}

struct Growth {
  const char* pointer;
  json value;
  const char* said;
};

json replacing(const char* pattern, size_t bytes) {
  return {{"type", "Replace"},
          {"pattern", {{"String", pattern}}},
          {"content", std::string(bytes, 'a')}};
}

/// The error of encoding 200 letters a and of decoding the ids of a text.
std::string growth_error(const Growth& growth) {
  json file = good_file();
  file[json::json_pointer(growth.pointer)] = growth.value;
  const TempFolder folder;
  const std::string path = folder.write("tokenizer.json", file.dump());
  const auto tokenizer = load_tokenizer(folder.path());
  try {
    tokenizer->encode(std::string(200, 'a'), true);
    tokenizer->decode(std::vector<int32_t>(200, 1), true);
  } catch (const DataError& error) {
    const std::string said = error.what();
    EXPECT_TRUE(said.starts_with("'" + path + "': ")) << said;
    EXPECT_EQ(error.hint(), "use the tokenizer.json of its authors");
    return said.substr(path.size() + 4);
  }
  return "";
}

TEST(TokenizerRefusalTest, StepsThatMakeATextMuchLonger) {
  const Growth growths[] = {
      {"/normalizer", replacing("a", 1 << 20),
       "'normalizer' of the type Replace makes a text longer than 4207104 bytes, the limit here"},
      {"/normalizer",
       {{"type", "Sequence"}, {"normalizers", std::vector<json>(8, replacing("a", 1 << 10))}},
       "'normalizer.normalizers[1]' of the type Replace makes a text longer than 4207104 bytes, "
       "the "
       "limit here"},
      {"/normalizer",
       {{"type", "Sequence"},
        {"normalizers",
         std::vector<json>(8, {{"type", "Prepend"}, {"prepend", std::string(1 << 20, 'b')}})}},
       "'normalizer.normalizers[4]' of the type Prepend makes a text longer than 4207104 bytes, "
       "the "
       "limit here"},
      {"/pre_tokenizer",
       {{"type", "Sequence"},
        {"pretokenizers",
         std::vector<json>(40, {{"type", "ByteLevel"}, {"add_prefix_space", true}})}},
       "'pre_tokenizer.pretokenizers[19]' of the type ByteLevel makes a text longer than 4207104 "
       "bytes, the limit here"},
      {"/decoder", replacing("a", 1 << 20),
       "'decoder' of the type Replace makes a text longer than 4207104 bytes, the limit here"},
      {"/decoder",
       {{"type", "Sequence"}, {"decoders", std::vector<json>(8, replacing("a", 1 << 10))}},
       "'decoder.decoders[1]' of the type Replace makes a text longer than 4207104 bytes, the "
       "limit "
       "here"}};
  for (const Growth& growth : growths) EXPECT_EQ(growth_error(growth), growth.said);
  EXPECT_EQ(growth_error({"/normalizer", replacing("a", 1 << 10), ""}), "");
}

TEST(TokenizerRefusalTest, TemplatesThatRepeatTheText) {
  json file = good_file();
  const json text = {{"Sequence", {{"id", "A"}, {"type_id", 0}}}};
  file["post_processor"] = {{"type", "TemplateProcessing"},
                            {"single", std::vector<json>(65, text)},
                            {"pair", json::array()},
                            {"special_tokens", json::object()}};
  EXPECT_EQ(refusal_of(file.dump()), "'post_processor.single' has more than 64 items");
}

/// As the tokenizers package encodes with such a vocabulary.
TEST(RefusalTest, TheLastIdOfAPieceThatAUnigramNamesTwiceCounts) {
  json file = good_file();
  file["model"] = json::parse(R"({"type": "Unigram", "unk_id": 0, "vocab": [
      ["<s>", 0.0], ["a", -5.0], ["b", -2.0], ["ab", -9.5], ["a", -1.0]]})");
  const TempFolder folder;
  folder.write("tokenizer.json", file.dump());
  const auto tokenizer = load_tokenizer(folder.path());
  EXPECT_EQ(tokenizer->encode("abab"), (std::vector<int32_t>{4, 2, 4, 2}));
  EXPECT_EQ(tokenizer->id_of("a"), 4);
}

TEST(RefusalTest, OtherModelsGiveATokenOneId) {
  Vocabulary vocabulary;
  vocabulary.reserve(2);
  vocabulary.add("a", 0);
  try {
    vocabulary.add("a", 1);
    FAIL();
  } catch (const FormatError& error) {
    EXPECT_STREQ(error.what(), "gives 'a' two ids");
  }
}

}  // namespace
}  // namespace accel::refusal_test
