// Texts that are too long, cut as a tokenizer.json asks for, against the tokenizers package. What
// that makes of them is written by tests/interop/make_truncations.py.
#include "data/datasets/text/truncation.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "core/api/dataset.h"
#include "core/base/error.h"
#include "tests/unit/build_component.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::truncation_test {
namespace {

using Json = nlohmann::json;

const Json& golden_truncations() {
  static const Json json = [] {
    const char* source = std::getenv("ACCEL_SOURCE_DIR");
    std::ifstream file(std::string(source ? source : ".") +
                       "/tests/unit/data/golden/truncation.json");
    return Json::parse(file);
  }();
  return json;
}

std::shared_ptr<const Tokenizer> loaded(const Json& file) {
  const TempFolder folder;
  folder.write("tokenizer.json", file.dump());
  return load_tokenizer(folder.path());
}

/// Null where the package refuses to cut.
Json cut_texts(const Tokenizer& tokenizer, const std::vector<std::string>& texts) try {
  const TruncationConfig cut = cut_for(tokenizer, {});
  TokenPair out = texts.size() == 1 ? encode_cut(tokenizer, texts[0], cut)
                                    : encode_pair_cut(tokenizer, texts[0], texts[1], cut);
  if (out.types.empty()) out.types.assign(out.ids.size(), 0);
  return {{"ids", out.ids}, {"types", out.types}};
} catch (const DataError&) {
  return nullptr;
}

TEST(TruncationTest, IsThatOfTheTokenizersPackage) {
  size_t refused = 0, all = 0;
  for (const Json& item : golden_truncations()) {
    const auto tokenizer = loaded(item["file"]);
    for (const Json& text : item["texts"]) {
      const Json found = cut_texts(*tokenizer, text["texts"].get<std::vector<std::string>>());
      EXPECT_EQ(found, text["tokens"]) << text["texts"] << ' ' << item["file"]["truncation"];
      refused += text["tokens"].is_null() ? 1 : 0;
      ++all;
    }
  }
  EXPECT_EQ(all, 210U);
  EXPECT_GT(refused, 0U);
}

std::string refusal(const Tokenizer& tokenizer, const std::vector<std::string>& texts) try {
  const TruncationConfig cut = cut_for(tokenizer, {});
  texts.size() == 1 ? encode_cut(tokenizer, texts[0], cut)
                    : encode_pair_cut(tokenizer, texts[0], texts[1], cut);
  return "";
} catch (const DataError& error) {
  return std::string(error.what()) + "\n" + error.hint();
}

TEST(TruncationTest, ATextThatMustNotBeCutIsTold) {
  Json file = golden_truncations()[0]["file"];
  file["truncation"]["strategy"] = "OnlySecond";
  EXPECT_EQ(
      refusal(*loaded(file), {"a b c d e f g"}),
      "the tokenizer's file truncates only the second text of a pair, and this is a single text\n"
      "set 'max_length', which truncates the longer text first");
  EXPECT_EQ(
      refusal(*loaded(file), {"a b c d e f g", "h"}),
      "the tokenizer's file truncates only the second text of a pair, and nothing of it remains\n"
      "set 'max_length', which truncates the longer text first");
}

TEST(TruncationTest, TheRecipeWins) {
  const auto tokenizer = loaded(golden_truncations()[9]["file"]);
  EXPECT_EQ(cut_for(*tokenizer, {}), (TruncationConfig{.max_length = 10, .from_left = true}));
  EXPECT_EQ(cut_for(*tokenizer, {6}), TruncationConfig{.max_length = 6});
  Json file = golden_truncations()[9]["file"];
  file["truncation"] = nullptr;
  EXPECT_EQ(cut_for(*loaded(file), {}), TruncationConfig{.max_length = 128});
}

TEST(TruncationTest, DatasetsAskTheTokenizerWhereTheRecipeDoesNot) {
  const TempFolder folder;
  Json file = golden_truncations()[5]["file"];  // 4 tokens, from the left
  folder.write("tokenizer.json", file.dump());
  folder.write("t.jsonl",
               R"({"text": "a b c d", "tokens": ["a", "b", "c"], "ner_tags": [0, 1, 2]})");
  const auto built = [&](const std::string& type, const std::string& more) {
    return build<Dataset>("{type: " + type + ", path: " + folder.path("t.jsonl") +
                          ", tokenizer: " + folder.path("tokenizer.json") + more + "}");
  };
  const auto tokens = [](const Dataset& data) {
    const Array input = data.sample(0).input;
    return std::vector<int64_t>(input.as<int64_t>().begin(), input.as<int64_t>().end());
  };
  for (const char* type : {"jsonl", "tagged_words"}) {
    const bool words = type == std::string("tagged_words");
    const auto asked = built(type, "");
    EXPECT_EQ(asked->shape().input, (Shape{4})) << type;
    EXPECT_EQ(tokens(*asked),
              words ? (std::vector<int64_t>{0, 4, 5, 1}) : (std::vector<int64_t>{0, 5, 6, 1}));
    const auto given = built(type, ", max_length: 4");
    EXPECT_EQ(tokens(*given), (std::vector<int64_t>{0, 3, 4, 1})) << type;
    EXPECT_NE(given->fingerprint(), asked->fingerprint()) << type;
  }
}

}  // namespace
}  // namespace accel::truncation_test
