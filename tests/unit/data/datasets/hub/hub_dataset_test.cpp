// Datasets of the hub: which files are a split, and that they are read.
#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "core/base/error.h"
#include "data/datasets/hub/hub_files.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::hub_dataset_test {
namespace {

/// The chosen names, or what is wrong.
std::string chosen(const TempFolder& folder, const HubChoice& choice) {
  std::string out;
  try {
    for (const std::string& file : hub_files(folder.path(), choice)) {
      out += (out.empty() ? "" : " ") + file.substr(folder.path().size() + 1);
    }
  } catch (const DataError& error) {
    out = std::string(error.what()) + "\n" + error.hint();
    for (size_t at; (at = out.find(folder.path())) != out.npos;) {
      out.replace(at, folder.path().size(), "DIR");
    }
  }
  return out;
}

struct SplitCase {
  const char* name;
  std::vector<std::string> files;
  const char* split;
  const char* expected;
};

const SplitCase kSplitCases[] = {
    {"ShardsFirst",
     {"data/train-00000-of-00002.parquet", "data/train-00001-of-00002.parquet",
      "data/test-00000-of-00001-0123abc.parquet", "test.csv"},
     "train",
     "data/train-00000-of-00002.parquet data/train-00001-of-00002.parquet"},
    {"ShardsOfAnyName",
     {"data/a_b-00000-of-00001.parquet", "data/train-00000-of-00001.parquet"},
     "a_b",
     "data/a_b-00000-of-00001.parquet"},
    {"NamesOfFiles",
     {"train.jsonl", "dev.jsonl", "my_test_set.jsonl"},
     "test",
     "my_test_set.jsonl"},
    {"DevIsValidation", {"train.jsonl", "dev.jsonl"}, "validation", "dev.jsonl"},
    {"WordsEnd",
     {"trained.csv", "x-train-1.csv", "train0.csv"},
     "train",
     "train0.csv x-train-1.csv"},
    {"WordsBegin", {"latest.csv", "test.csv", "my test.csv"}, "test", "my test.csv test.csv"},
    {"FoldersBeforeNames",
     {"train/test.csv", "evaluation/train.csv"},
     "test",
     "evaluation/train.csv"},
    {"AllIsTrain", {"b.txt", "a/a.txt", ".hidden/c.txt", "__old/d.txt"}, "", "a/a.txt b.txt"},
    {"UnknownSplit",
     {"train.csv", "valid.csv"},
     "dev",
     "'DIR' has the splits 'train', 'validation', not 'dev'\nname one of them with 'split'"},
    {"SeveralKinds",
     {"train.csv", "train.jsonl"},
     "train",
     "the files of 'DIR' are of several kinds: '.csv', '.jsonl'\n"
     "select them with 'files', such as 'files: [\"**/*.csv\"]'"},
    {"NothingToRead",
     {"model.bin", "dataset_infos.json"},
     "",
     "'DIR' has no files of a supported format\n"
     "supported are '.parquet', '.arrow', '.jsonl', '.ndjson', '.json', '.csv', '.tsv', '.txt'"},
};

class HubSplitTest : public testing::TestWithParam<SplitCase> {};

TEST_P(HubSplitTest, IsWhatDatasetsTakes) {
  const TempFolder folder;
  for (const std::string& file : GetParam().files) folder.write(file, "x");
  EXPECT_EQ(chosen(folder, {.config = {}, .split = GetParam().split, .files = {}}),
            GetParam().expected);
}

INSTANTIATE_TEST_SUITE_P(Cases, HubSplitTest, testing::ValuesIn(kSplitCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(HubFilesTest, WhatIsEvaluatedIsValidationElseTest) {
  const TempFolder folder;
  for (const char* file : {"train.csv", "test.csv"}) folder.write(file, "x");
  EXPECT_EQ(chosen(folder, {.config = {}, .split = {}, .files = {}, .train = false}), "test.csv");
  folder.write("valid.csv", "x");
  EXPECT_EQ(chosen(folder, {.config = {}, .split = {}, .files = {}, .train = false}), "valid.csv");
}

TEST(HubFilesTest, AConfigOfFilesThatAreNotThereIsToldOf) {
  const TempFolder folder;
  folder.write("train.csv", "x");
  folder.write("README.md", "---\nconfigs:\n- config_name: fr\n  data_files: fr/*.csv\n---\n");
  EXPECT_EQ(chosen(folder, {.config = "fr", .split = {}, .files = {}}),
            "no file matches the config 'fr' of README.md\n"
            "see 'data_files' there, or choose with 'files'");
}

TEST(HubFilesTest, ReadmeNamesConfigsAndSplits) {
  const TempFolder folder;
  for (const char* file : {"en/a.csv", "en/b.csv", "de/train.csv", "de/test.csv", "all.csv"}) {
    folder.write(file, "x");
  }
  folder.write("README.md", R"(---
license: mit
configs:
- config_name: en
  data_files:
  - split: train
    path: en/*.csv
  - split: held_out
    path: ["all.csv", 'en/[ab].csv']
- config_name: de
  data_dir: de
- config_name: whole
  default: true
  data_files: all.*
- config_name: map
  data_files: {test: "**/b.csv"}
---
# A dataset
)");
  const auto of = [&](const char* config, const char* split) {
    return chosen(folder, {.config = config, .split = split, .files = {}});
  };
  EXPECT_EQ(of("en", ""), "en/a.csv en/b.csv");
  EXPECT_EQ(of("en", "held_out"), "all.csv en/a.csv en/b.csv");
  EXPECT_EQ(of("de", "test"), "de/test.csv");
  EXPECT_EQ(of("", ""), "all.csv");
  EXPECT_EQ(of("map", "test"), "en/b.csv");
  EXPECT_EQ(of("fr", ""),
            "'DIR' has the configs 'de', 'en', 'map', 'whole', not 'fr'\nname one of them with "
            "'config'");
  EXPECT_EQ(chosen(folder, {.config = {}, .split = {}, .files = {"de/*", "all.csv"}}),
            "de/test.csv de/train.csv all.csv");
  EXPECT_EQ(chosen(folder, {.config = {}, .split = {}, .files = {"fr/*"}}),
            "'DIR' has no files that match 'fr/*'\n"
            "it has 'all.csv', for instance");
}

TEST(HubFilesTest, AReadmeWithoutConfigsAndOneThatIsBroken) {
  const TempFolder folder;
  folder.write("train.csv", "x");
  folder.write("README.md", "# Words only\n");
  EXPECT_EQ(chosen(folder, {.config = {}, .split = {}, .files = {}}), "train.csv");
  EXPECT_EQ(chosen(folder, {.config = "en", .split = {}, .files = {}}),
            "'DIR' names no configs, not 'en'\nleave out 'config', or name the files with 'files'");
  folder.write("README.md", "---\nconfigs: [\n---\n");
  EXPECT_TRUE(chosen(folder, {.config = {}, .split = {}, .files = {}})
                  .starts_with("the head of 'DIR/README.md' cannot be read: "));
}

struct ReadCase {
  const char* name;
  std::vector<std::pair<std::string, std::string>> files;
  const char* options;
};

const ReadCase kReadCases[] = {
    {"Jsonl",
     {{"train-1.jsonl", "{\"text\": \"good film\", \"label\": 1}\n"},
      {"train-2.jsonl", "{\"text\": \"bad\", \"label\": 0}\n"}},
     "target: label"},
    {"Csv",
     {{"train-1.csv", "label,text\n1,good film\n"}, {"train-2.csv", "text,label\n\"bad\",0\n"}},
     "target: label"},
    {"Tsv", {{"train/a.tsv", "label\ttext\n1\tgood film\n0\tbad\n"}}, "target: label"},
    {"Txt", {{"a.txt", "good film\n\n"}, {"b.txt", "bad"}}, "text: text"},
};

class HubReadTest : public testing::TestWithParam<ReadCase> {};

TEST_P(HubReadTest, RecordsOfAllFilesFollowOneAnother) {
  const TempFolder folder;
  for (const auto& [name, content] : GetParam().files) folder.write("set/" + name, content);
  folder.write("tokenizer.json", kSmallTokenizer);
  const auto data = build<Dataset>("{type: hf, path: " + folder.path("set") + ", tokenizer: " +
                                   folder.path("tokenizer.json") + ", " + GetParam().options + "}");
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(data->sample(0).input.shape(), (Shape{4}));  // with the two special tokens
  EXPECT_EQ(data->sample(1).input.shape(), (Shape{3}));
  if (std::string(GetParam().options) == "target: label") {
    EXPECT_EQ(data->sample(0).target.as<int64_t>()[0], 1);
    EXPECT_EQ(data->sample(1).target.as<int64_t>()[0], 0);
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, HubReadTest, testing::ValuesIn(kReadCases),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(HubDatasetTest, AColumnThatIsNotThere) {
  const TempFolder folder;
  const std::string file = folder.write("set/a.csv", "text,label\ngood,1\n");
  folder.write("tokenizer.json", kSmallTokenizer);
  try {
    build<Dataset>("{type: hf, path: " + folder.path("set") +
                   ", text: review, tokenizer: " + folder.path("tokenizer.json") + "}");
    FAIL();
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(), "'" + file + "' has no column 'review'");
    EXPECT_EQ(error.hint(), "it has 'text', 'label'");
  }
}

TEST(HubDatasetTest, MissingLabelsAreRefused) {
  const TempFolder folder;
  const std::string tokenizer = folder.write("tokenizer.json", kSmallTokenizer);
  const auto refusal = [&](const std::string& value, const std::string& more = "") {
    folder.write("set/a.csv", "text,label\ngood,1\nbad," + value + "\n");
    try {
      build<Dataset>("{type: hf, path: " + folder.path("set") +
                     ", target: label, tokenizer: " + tokenizer + more + "}");
    } catch (const DataError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const std::string file = folder.path("set/a.csv");
  EXPECT_EQ(refusal("NA"), file + ":3: field 'label' holds 'NA', a missing value, not a label");
  EXPECT_EQ(refusal(""), file + ":3: field 'label' holds '', a missing value, not a label");
  EXPECT_EQ(refusal("NA", ", labels: [NA, '1']"), "");
  EXPECT_EQ(refusal("0"), "");
}

TEST(HubDatasetTest, OneFileIsReadAsItIs) {
  const TempFolder folder;
  const std::string tokenizer = folder.write("tokenizer.json", kSmallTokenizer);
  const std::string file = folder.write("new.jsonl", "{\"text\": \"good\"}\n{\"text\": \"bad\"}\n");
  const std::string recipe = "{type: hf, path: " + file + ", tokenizer: " + tokenizer;
  EXPECT_EQ(build<Dataset>(recipe + "}")->size(), 2);
  try {
    build<Dataset>(recipe + ", split: test}");
    ADD_FAILURE();
  } catch (const DataError& error) {
    EXPECT_EQ(error.what(),
              "'" + file + "' is a file, and 'config', 'split' and 'files' choose in a folder");
    EXPECT_EQ(error.hint(), "leave them out, or name the folder");
  }
}

}  // namespace
}  // namespace accel::hub_dataset_test
