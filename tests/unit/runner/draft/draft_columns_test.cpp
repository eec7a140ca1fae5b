// Drafts for the Parquet and Arrow files of tests/interop/make_golden_arrow.py; skipped without
// Arrow.
#include <gtest/gtest.h>

#include <filesystem>

#include "core/base/convert_command.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "runner/draft/field_texts.h"
#include "runner/draft/new_recipe.h"
#include "tests/unit/arrow_library.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::draft_columns_test {
namespace {

namespace fs = std::filesystem;

const fs::path kGolden =
    fs::path(std::getenv("ACCEL_SOURCE_DIR") ? std::getenv("ACCEL_SOURCE_DIR") : ".") /
    "tests/unit/data/golden/arrow";

class DraftColumnsTest : public testing::Test {
 protected:
  void SetUp() override { open_arrow_library(); }

  std::string text_for(const fs::path& path, const DraftRequest& wishes = {}) const {
    DraftRequest request = wishes;
    request.data = path.string();
    request.recipe = "/elsewhere/recipes/new.yaml";
    return new_recipe(request).text;
  }

  TempFolder folder_;
};

TEST(ConvertCommandTest, WritesJsonLinesOrATable) {
  EXPECT_EQ(convert_command("d/a.parquet", ".jsonl"),
            "python3 -c \"import pandas; pandas.read_parquet('d/a.parquet').to_json('d/a.jsonl', "
            "orient='records', lines=True)\"");
  EXPECT_EQ(convert_command("a.parquet", ".csv"),
            "python3 -c \"import pandas; pandas.read_parquet('a.parquet').to_csv('a.csv', "
            "index=False)\"");
  EXPECT_EQ(
      convert_command("a.arrow", ".csv"),
      "python3 -c \"import datasets; datasets.Dataset.from_file('a.arrow').to_csv('a.csv')\"");
}

struct ColumnsCase {
  const char* file;
  DraftRequest wishes;
  std::vector<const char*> lines;
};

TEST_F(DraftColumnsTest, EachColumnIsListedWithItsUse) {
  const std::vector<ColumnsCase> cases = {
      {"plain.parquet",
       {},
       {"#     column  type                  missing  use\n",
        "#     nested  list<element: int32>  0        not used\n",
        "#     text    text                  0        text\n", "'label' is a label of 'text'",
        "    type: parquet\n", "    path: \"${vars.data}/plain.parquet\"\n",
        "    text: [\"text\"]\n", "    target: \"label\"\n", "--fields text --model wordpiece"}},
      {"plain.parquet",
       {.as = "text"},
       {"'--as text'", "task: causal_lm", "    type: parquet\n", "    max_length: 64"}},
      {"plain.parquet",
       {.target = "score"},
       {"predicts 'score' as a number", "    target_type: number\n",
        "task: {type: regression, target_mean: 1.39167, target_std: 2.90695}"}},
      {"nulls.parquet",
       {},
       {"rows without a text or a target: 1; they are skipped and counted",
        "    on_bad_sample: skip(1)\n"}},
      {"file.arrow", {}, {"    type: arrow\n", "    path: \"${vars.data}/file.arrow\"\n"}},
      {"images.parquet",
       {},
       {"image   struct<bytes: binary, path: string>           image",
        "Classifies the images of column 'image' of images.parquet into 2 classes.",
        "predicts 'label' as one of 2 classes: 'dark' 2, 'light' 2", "    type: hf_images\n",
        "    image: \"image\"\n", "task: classification"}},
      {"tokens.parquet",
       {},
       {"Language model of the token ids in column 'input_ids' of tokens.parquet.",
        "the largest token id is 9: set 'vocab_size' to that of the tokenizer",
        "    type: hf_tokens\n", "    vocab_size: 10\n", "task: causal_lm"}},
      {"hub/train-00000-of-00002.parquet",
       {},
       {"    path: \"${vars.data}\"\n    split: \"train\"\n", "eval: the rows of split 'test'",
        "    split: test\n"}},
  };
  for (const ColumnsCase& each : cases) {
    const std::string text = text_for(kGolden / each.file, each.wishes);
    for (const char* line : each.lines) {
      EXPECT_NE(text.find(line), text.npos) << each.file << ": " << line << '\n' << text;
    }
  }
}

TEST_F(DraftColumnsTest, AFolderOfShardsIsReadWhole) {
  for (const char* name : {"train-00000-of-00002", "train-00001-of-00002", "test-00000-of-00001"}) {
    fs::copy(kGolden / "hub" / (std::string(name) + ".parquet"), folder_.path());
  }
  const std::string text = text_for(folder_.path());
  EXPECT_EQ(text.find("not read"), text.npos) << text;
  EXPECT_NE(text.find("training data: 2 files\n#   train-00000-of-00002.parquet: 6 rows"),
            text.npos)
      << text;
}

TEST_F(DraftColumnsTest, AFolderOfSaveToDiskIsReadWhole) {
  const std::string text = text_for(kGolden / "saved");
  EXPECT_NE(text.find("data-00000-of-00002.arrow: 8 rows"), text.npos) << text;
  EXPECT_NE(text.find("    type: arrow\n    path: \"${vars.data}\"\n"), text.npos) << text;
  EXPECT_EQ(text.find("not read"), text.npos) << text;
}

TEST_F(DraftColumnsTest, SplitsOfSaveToDiskAreNamed) {
  const std::string text = text_for(kGolden / "splits");
  EXPECT_NE(text.find("path: \"${vars.data}\"\n    split: \"train\"\n"), text.npos) << text;
  EXPECT_NE(text.find("    split: test\n"), text.npos) << text;
}

TEST_F(DraftColumnsTest, WhatNoDatasetReadsIsRefusedWithTheCommandThatConvertsIt) {
  const auto refusal = [&](const char* name, const char* extension) {
    const std::string path = (kGolden / name).string();
    std::string message = complaint([&] { text_for(path); });
    const std::string hint = "\nconvert the file, and draft from the new one: ";
    const size_t at = message.find(hint);
    EXPECT_EQ(message.substr(std::min(at + hint.size(), message.size())),
              convert_command(path, extension));
    message.resize(std::min(at, message.size()));
    for (size_t of; (of = message.find(path)) != message.npos;)
      message.replace(of, path.size(), "FILE");
    return message;
  };
  EXPECT_EQ(refusal("numbers.parquet", ".csv"),
            "the rows of 'FILE' are numbers and categories, which are read from tables only");
  EXPECT_EQ(refusal("talks.parquet", ".jsonl"),
            "column 'messages' of 'FILE' has the type 'list<element: struct<role: string, content: "
            "string>>': conversations are read from JSON Lines only");
  EXPECT_EQ(refusal("pairs.parquet", ".jsonl"),
            "the fields 'prompt', 'completion' are a prompt and its answer in 'FILE': prompts "
            "and preferences are read from JSON Lines only");
}

TEST_F(DraftColumnsTest, TaggedWordsOfAFileAreTaggedWithTheNamesOfTheirClasses) {
  for (const char* name : {"tagged.parquet", "tagged.arrow"}) {
    const std::string recipe = text_for((kGolden / name).string());
    for (const char* line :
         {"#     labels    list of classes", "        words\n", "        tags\n",
          "    type: token_classification\n", "\ntask: token_classification\n"}) {
      EXPECT_NE(recipe.find(line), recipe.npos) << name << line << recipe;
    }
  }
  const TempFolder work;
  fs::copy(kGolden / "tagged.parquet", work.path("train-00000-of-00001.parquet"));
  const std::string path = work.path("train-00000-of-00001.parquet");
  EXPECT_EQ(complaint([&] { text_for(path); }),
            text("'ner_tags' has a tag for each word of 'tokens' in '{}': tagged words are read "
                 "from one file, not from the files of a split\n"
                 "name a .jsonl, .parquet or .arrow file with all of them, without "
                 "'-00000-of-00002' in its name",
                 path));
}

TEST_F(DraftColumnsTest, TokenizersAreTrainedOnColumnsWithoutTheirNulls) {
  std::vector<std::string> texts;
  append_field_texts((kGolden / "nulls.parquet").string(), {"text"}, texts);
  EXPECT_EQ(texts.size(), 7u);
  std::vector<std::string> words;
  append_field_texts((kGolden / "tagged.parquet").string(), {"tokens"}, words);
  EXPECT_EQ(words, (std::vector<std::string>{"good", "film", "bad", "film", "bad", "good"}));
  EXPECT_EQ(
      complaint([&] { append_field_texts((kGolden / "plain.parquet").string(), {"body"}, texts); }),
      "'" + (kGolden / "plain.parquet").string() + "' has no field 'body'");
}

}  // namespace
}  // namespace accel::draft_columns_test
