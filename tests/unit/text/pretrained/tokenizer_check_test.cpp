// Tokenizers that transformers rebuilds from an exported folder. The ids are those of AutoTokenizer
// and of PreTrainedTokenizerFast.
#include "text/pretrained/tokenizer_check.h"

#include <gtest/gtest.h>

#include "tests/unit/formats/temp_folder.h"

namespace accel::tokenizer_check_test {
namespace {

/// Bytes with merges of two digits, as GPT-2 splits texts.
constexpr auto kDigits = R"({
  "added_tokens": [{"id": 8, "content": "<s>", "single_word": false, "lstrip": false,
                    "rstrip": false, "normalized": false, "special": true}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
                    "use_regex": true},
  "decoder": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true,
              "use_regex": true},
  "model": {"type": "BPE", "vocab": {"0": 0, "1": 1, "2": 2, "4": 3, "a": 4, "b": 5, "20": 6,
                                     "24": 7, "<s>": 8}, "merges": ["2 0", "2 4"]}})";

class TokenizerCheckTest : public testing::Test {
 protected:
  std::string difference(const std::string& config, const std::string& tokenizer_config) {
    const TempFolder work;
    work.write("trained/tokenizer.json", kDigits);
    work.write("exported/tokenizer.json", kDigits);
    work.write("exported/config.json", config);
    if (!tokenizer_config.empty()) work.write("exported/tokenizer_config.json", tokenizer_config);
    return tokenizer_difference(work.path("trained"), work.path("exported"));
  }
};

constexpr auto kFast = R"({"tokenizer_class": "PreTrainedTokenizerFast"})";

TEST_F(TokenizerCheckTest, AClassOfTheModelTypeMayGiveOtherIds) {
  const std::string by_qwen =
      R"(transformers builds another tokenizer from the folder than the run had: its class )"
      R"(rebuilds it, because 'model_type' of config.json is 'qwen2'; ' it's  2024:\x0a\x0a\x09an )"
      R"(example' gets the ids [2, 0, 2, 3, 4, 4] instead of [6, 7, 4, 4]; )"
      R"(PreTrainedTokenizerFast.from_pretrained() reads tokenizer.json as it is)";
  EXPECT_EQ(difference(R"({"model_type": "qwen2"})", kFast), by_qwen);
  EXPECT_EQ(difference(R"({"model_type": "qwen2"})", ""), by_qwen);
  EXPECT_EQ(difference(R"({"model_type": "roberta"})", ""),
            "transformers builds another tokenizer from the folder than the run had: its class "
            "rebuilds it, because 'model_type' of config.json is 'roberta'; 'Hello, world!' gets "
            "the ids [8, 9] instead of []; PreTrainedTokenizerFast.from_pretrained() reads "
            "tokenizer.json as it is");
}

TEST_F(TokenizerCheckTest, EqualIdsAreNoDifference) {
  for (const char* type : {"llama", "gpt2", "modernbert"}) {
    EXPECT_EQ(difference(std::string(R"({"model_type": ")") + type + "\"}", kFast), "") << type;
  }
  EXPECT_EQ(difference(R"({"model_type": "gpt2"})", ""), "");
}

TEST_F(TokenizerCheckTest, AClassOfAnotherModelIsNamed) {
  const std::string found = difference(R"({"model_type": "bert"})", "");
  EXPECT_EQ(found.find("the tokenizer that transformers builds from the folder is unknown: '"), 0u)
      << found;
  EXPECT_NE(found.find("'model_type' of config.json is 'bert', whose model is WordPiece, but that "
                       "of tokenizer.json is 'BPE'"),
            found.npos)
      << found;
}

}  // namespace
}  // namespace accel::tokenizer_check_test
