// Parquet and Arrow files as pyarrow and Hugging Face's datasets write them: see
// tests/interop/make_golden_arrow.py. What needs Arrow itself is skipped where it is not.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include "core/api/targets.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "data/datasets/hub/arrow_rows.h"
#include "data/datasets/skipped_samples.h"
#include "data/loader/epoch_order.h"
#include "tests/unit/arrow_library.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::arrow_test {
namespace {

const std::string kFolder =
    std::string(std::getenv("ACCEL_SOURCE_DIR") ? std::getenv("ACCEL_SOURCE_DIR") : ".") +
    "/tests/unit/data/golden/arrow/";

class ArrowTest : public testing::Test {
 protected:
  void SetUp() override { open_arrow_library(); }

  std::shared_ptr<Dataset> open(const std::string& options) const {
    folder_.write("tokenizer.json", kSmallTokenizer);
    return build<Dataset>("{tokenizer: " + folder_.path("tokenizer.json") + ", " + options + "}");
  }
  std::shared_ptr<Dataset> golden(const std::string& type, const std::string& name,
                                  const std::string& options) const {
    return open("type: " + type + ", path: " + kFolder + name + ", " + options);
  }

  TempFolder folder_;
};

/// Without the special tokens, by the words of kSmallTokenizer: 5 good, 6 bad, 7 film.
std::string words_of(const Dataset& data, int64_t index) {
  std::string out;
  const Array tokens = data.sample(index).input;
  for (const int64_t token : tokens.as<int64_t>()) {
    if (token >= 5) out += static_cast<char>('0' + token);
  }
  return out;
}

std::string all_words(const Dataset& data) {
  std::string out;
  for (int64_t i = 0; i < data.size(); ++i) out += (i ? " " : "") + words_of(data, i);
  return out;
}

std::string all_labels(const Dataset& data) {
  std::string out;
  for (int64_t i = 0; i < data.size(); ++i) {
    out += std::to_string(data.sample(i).target.as<int64_t>()[0]);
  }
  return out;
}

constexpr auto kWords = "57 67 5 6 755 667 577 6";

struct RowsCase {
  const char* type;
  const char* name;
  const char* options;
};

const RowsCase kRows[] = {
    {"parquet", "plain.parquet", "target: label"},
    {"parquet", "plain.parquet", "text: coded, target: label"},
    {"parquet", "plain.parquet", "text: large, target: label"},
    {"arrow", "file.arrow", "target: label"},
    {"arrow", "file.arrow", "text: coded, target: label"},
    {"arrow", "saved", "target: label"},
};

TEST_F(ArrowTest, RowsAreTextsAndLabels) {
  for (const RowsCase& test : kRows) {
    const auto data = golden(test.type, test.name, test.options);
    EXPECT_EQ(all_words(*data), kWords) << test.name << " " << test.options;
    EXPECT_EQ(all_labels(*data), "10101010") << test.name << " " << test.options;
    EXPECT_EQ(data->shape().classes, 2) << test.name;
    EXPECT_EQ(dynamic_cast<const KnowsLengths&>(*data).length(4), 5) << test.name;
  }
}

TEST_F(ArrowTest, ClassLabelsKeepTheirNamesAndNumbers) {
  EXPECT_EQ(golden("arrow", "saved", "target: label")->shape().labels,
            (std::vector<std::string>{"bad", "good"}));
  EXPECT_EQ(all_labels(*golden("arrow", "saved", "target: label, labels: [good, bad]")),
            "01010101");
  EXPECT_EQ(golden("parquet", "hub", "split: test, target: label")->shape().labels,
            (std::vector<std::string>{"bad", "good"}));
}

std::vector<float> floats_of(const Dataset& data, int64_t index) {
  const Array target = data.sample(index).target;
  return {target.as<float>().begin(), target.as<float>().end()};
}

TEST_F(ArrowTest, ListsOfClassesKeepTheirNamesAndNumbers) {
  for (const char* type : {"parquet", "arrow"}) {
    const auto data = golden(type, text("tagged.{}", type), "target: labels, target_type: labels");
    EXPECT_EQ(data->shape().labels, (std::vector<std::string>{"joy", "anger", "fear"})) << type;
    EXPECT_EQ(floats_of(*data, 0), (std::vector<float>{1, 0, 0})) << type;
    EXPECT_EQ(floats_of(*data, 1), (std::vector<float>{1, 1, 0})) << type;
    EXPECT_EQ(floats_of(*data, 2), (std::vector<float>{0, 0, 0})) << type;
  }
  EXPECT_EQ(complaint([&] {
              golden("parquet", "tagged.parquet", "target: labels, target_type: number");
            }),
            kFolder +
                "tagged.parquet row 1: field 'labels' holds '[1,0]', 2 numbers, where the "
                "first has 1");
}

std::vector<int64_t> tags_of(const Dataset& data, int64_t index) {
  std::vector<int64_t> out;
  const Array target = data.sample(index).target;
  for (const int64_t tag : target.as<int64_t>()) {
    if (tag != kIgnoredTarget) out.push_back(tag);
  }
  return out;
}

TEST_F(ArrowTest, TagsOfWordsAreTheClassesOfTheirList) {
  for (const char* name :
       {"tagged.parquet", "tagged.arrow", "tagged_sequence.parquet", "tagged_list.parquet"}) {
    const auto data = golden("token_classification", name, "max_length: 16");
    EXPECT_EQ(data->shape().labels, (std::vector<std::string>{"O", "B-PER", "I-PER", "B-LOC"}))
        << name;
    EXPECT_EQ(words_of(*data, 0), "57") << name;
    EXPECT_EQ(tags_of(*data, 0), (std::vector<int64_t>{1, 0})) << name;
    EXPECT_EQ(tags_of(*data, 1), std::vector<int64_t>{3}) << name;
    EXPECT_FALSE(data->shape().labels_found) << name;
  }
  EXPECT_EQ(
      tags_of(*golden("token_classification", "tagged.parquet", "labels: [B-LOC, I-PER, B-PER, O]"),
              1),
      std::vector<int64_t>{0});
  EXPECT_EQ(complaint([&] { golden("token_classification", "tagged.parquet", "tags: labels"); }),
            kFolder +
                "tagged.parquet row 0: has 2 words in the field 'tokens' and 1 tags in the "
                "field 'labels'");
  EXPECT_EQ(complaint([&] { golden("token_classification", "tagged.parquet", "words: text"); }),
            "'" + kFolder +
                "tagged.parquet': field 'text' has the type 'string', a list of strings, numbers "
                "or booleans wanted");
}

TEST_F(ArrowTest, NumbersAreThoseThatWereWritten) {
  const float wanted[] = {0.5f, -2.0f, 1e-3f, 0.1f, 3.0f, 1.5f, -0.25f, 7.0f};
  for (const char* field : {"score", "half"}) {
    const auto data =
        golden("parquet", "plain.parquet", std::string("target_type: number, target: ") + field);
    for (int64_t i = 0; i < 8; ++i) EXPECT_EQ(data->sample(i).target.as<float>()[0], wanted[i]);
  }
  EXPECT_EQ(golden("parquet", "plain.parquet", "target: truth")->shape().labels,
            (std::vector<std::string>{"false", "true"}));
}

TEST_F(ArrowTest, WithoutATargetTheNextTokensAreIt) {
  const auto data = golden("parquet", "plain.parquet", "max_length: 16");
  const Array targets = data->sample(0).target;
  const auto target = targets.as<int64_t>();
  EXPECT_EQ(std::vector<int64_t>(target.begin(), target.end()),
            (std::vector<int64_t>{5, 7, 3, kIgnoredTarget}));
}

TEST_F(ArrowTest, SplitsAreChosenByName) {
  EXPECT_EQ(all_words(*golden("arrow", "splits", "split: train")), "57 67 5 6 755 667");
  EXPECT_EQ(all_words(*golden("arrow", "splits", "split: test")), "577 6");
  EXPECT_EQ(all_words(*golden("parquet", "hub", "split: train")), "57 67 5 6 755 667");
}

TEST_F(ArrowTest, ARowWithoutATextIsABadSample) {
  const std::string path = kFolder + "nulls.parquet";
  EXPECT_EQ(complaint([&] { golden("parquet", "nulls.parquet", "target: label"); }),
            path + " row 5: field 'text' is null");
  testing::internal::CaptureStderr();
  const auto data = golden("parquet", "nulls.parquet", "target: label, on_bad_sample: skip(1)");
  testing::internal::GetCapturedStderr();
  EXPECT_EQ(all_words(*data), "57 67 5 6 755 577 6");
  EXPECT_EQ(all_labels(*data), "1010110");
  EXPECT_EQ(left_out(*data), 1);
}

TEST_F(ArrowTest, WhatIsWrongIsTold) {
  const std::string path = kFolder + "plain.parquet";
  EXPECT_EQ(complaint([&] { golden("parquet", "plain.parquet", "text: review"); }),
            "'" + path +
                "' has no field 'review'\nit has the fields 'nested', 'text', 'coded', "
                "'large', 'label', 'score', 'half', 'truth'");
  EXPECT_EQ(complaint([&] { golden("parquet", "plain.parquet", "text: nested"); }),
            "'" + path +
                "': field 'nested' has the type 'list<element: int32>', a string, number or "
                "boolean wanted");
  EXPECT_EQ(complaint([&] { golden("arrow", "saved", "target: label, labels: [good]"); }),
            kFolder +
                "saved/data-00000-of-00002.arrow row 1: field 'label' holds 'bad', none of "
                "the labels of the recipe");
}

/// What reading the first row of a file says.
std::string row_complaint(const std::string& path, const std::string& field, ArrowField kind) {
  return complaint([&] {
    const ArrowRows rows({{path}, {}}, ArrowFormat::kParquet);
    std::vector<std::string_view> fields;
    rows.open({field}, {kind})->next(fields);
  });
}

TEST_F(ArrowTest, ValuesThatNoSampleHasAreRefused) {
  const std::string path = kFolder + "refused.parquet";
  EXPECT_EQ(row_complaint(path, "image", ArrowField::kBytes),
            path +
                " row 0: field 'image' has the path of an image without its bytes\n"
                "save the dataset with its images, as 'push_to_hub' and 'to_parquet' do");
  EXPECT_EQ(row_complaint(path, "ids", ArrowField::kNumbers),
            path + " row 0: field 'ids' has 9223372036854775808, a 64-bit integer wanted");
}

TEST_F(ArrowTest, AClassWithoutANameIsRefused) {
  std::string content = file_content(kFolder + "saved/data-00000-of-00002.arrow");
  const std::string names = R"(["bad", "good"])", fewer = R"(["bad-good"]   )";
  for (size_t at; (at = content.find(names)) != content.npos;) {
    content.replace(at, names.size(), fewer);
  }
  const std::string path = folder_.write("fewer.arrow", content);
  EXPECT_EQ(complaint([&] { open("type: arrow, path: " + path + ", target: label"); }),
            path + " row 0: field 'label' has 1, not one of its 1 classes");
}

TEST_F(ArrowTest, AnIndexBeyondTheRowsIsRefused) {
  std::filesystem::copy(kFolder + "selected", folder_.path("selected"));
  folder_.write("selected/state.json",
                R"({"_data_files": [{"filename": "data-00000-of-00002.arrow"}],
                    "_indices_files": [{"filename": "indices.arrow"}]})");
  EXPECT_EQ(complaint([&] { open("type: arrow, path: " + folder_.path("selected")); }),
            folder_.path("selected/indices.arrow") +
                " row 0 names row 6, but the dataset has 4\n"
                "save the dataset again");
}

/// A damaged file ends a run, whatever may be left out of one that is whole.
TEST_F(ArrowTest, DamagedFilesAreRefused) {
  for (const char* name : {"plain.parquet", "file.arrow", "saved/data-00000-of-00002.arrow"}) {
    const std::string whole = file_content(kFolder + name);
    const std::string type = std::string(name).ends_with("parquet") ? "parquet" : "arrow";
    for (size_t size = 0; size < whole.size(); size += 499) {
      const std::string path = folder_.write("torn", whole.substr(0, size));
      const std::string reported = complaint(
          [&] { open("type: " + type + ", path: " + path + ", on_bad_sample: skip(9)"); });
      EXPECT_TRUE(reported.starts_with("'" + path + "' cannot be read: "))
          << size << " of " << name << ": " << reported;
    }
    for (size_t at = 8; at < whole.size(); at += 151) {
      std::string changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ 0x55);
      const std::string path = folder_.write("changed", changed);
      complaint([&] { open("type: " + type + ", path: " + path + ", on_bad_sample: skip(9)"); });
    }
  }
}

class ArrowFilesTest : public testing::Test {
 protected:
  std::string refusal(const std::string& split = "", ArrowFormat format = ArrowFormat::kIpc) const {
    return complaint([&] { arrow_files(folder_.path(), split, format); });
  }

  TempFolder folder_;
};

TEST_F(ArrowFilesTest, FoldersAreReadByName) {
  folder_.write("b.parquet", "");
  folder_.write("a.parquet", "");
  folder_.write("a.txt", "");
  EXPECT_EQ(arrow_files(folder_.path(), "", ArrowFormat::kParquet).data,
            (std::vector<std::string>{folder_.path("a.parquet"), folder_.path("b.parquet")}));
  EXPECT_EQ(refusal(), "no '*.arrow' files in '" + folder_.path() + "'");
  EXPECT_EQ(complaint([&] { arrow_files(folder_.path("a.parquet"), "train", {}); }),
            "'split' requires a folder, and '" + folder_.path("a.parquet") + "' is a file");
}

TEST_F(ArrowFilesTest, OfSeveralSplitsOneIsNamed) {
  folder_.write("train-00000-of-00001.parquet", "");
  folder_.write("test-00000-of-00001.parquet", "");
  EXPECT_EQ(refusal("", ArrowFormat::kParquet),
            "'" + folder_.path() +
                "' holds the splits 'test', 'train'\nname one of them with "
                "'split'");
  EXPECT_EQ(refusal("dev", ArrowFormat::kParquet),
            "'" + folder_.path() +
                "' holds the splits 'test', 'train', not 'dev'\nname one of "
                "them with 'split'");
  folder_.write("dataset_dict.json", R"({"splits": ["train", "../x", 3]})");
  EXPECT_EQ(refusal(),
            "'" + folder_.path() + "' holds the splits 'train'\nname one of them with 'split'");
  folder_.write("dataset_dict.json", R"({"splits": ["../x"]})");
  EXPECT_EQ(refusal("train"),
            "'" + folder_.path("dataset_dict.json") + "' names no splits\nsave the dataset again");
}

TEST_F(ArrowFilesTest, WordsInFileNamesAreSplits) {
  folder_.write("train.parquet", "");
  folder_.write("test_2.parquet", "");
  EXPECT_EQ(
      refusal("", ArrowFormat::kParquet),
      "'" + folder_.path() + "' holds the splits 'test', 'train'\nname one of them with 'split'");
  EXPECT_EQ(arrow_files(folder_.path(), "test", ArrowFormat::kParquet).data,
            std::vector<std::string>{folder_.path("test_2.parquet")});
  folder_.write("more.parquet", "");  // then the words do not divide the files
  EXPECT_EQ(arrow_files(folder_.path(), "", ArrowFormat::kParquet).data.size(), 3U);
}

TEST_F(ArrowFilesTest, ASavedFolderIsWhatItsStateSays) {
  const std::string state = folder_.path("state.json");
  folder_.write("z.arrow", "");
  folder_.write("state.json",
                R"({"_data_files": [{"filename": "2.arrow"}, {"filename": "1.arrow"}]})");
  EXPECT_EQ(arrow_files(folder_.path(), "", ArrowFormat::kIpc).data,
            (std::vector<std::string>{folder_.path("2.arrow"), folder_.path("1.arrow")}));
  EXPECT_EQ(refusal("train"),
            "'" + folder_.path() + "' is one dataset without splits\nleave out 'split'");
  const std::string nameless = "'" + state + "' does not name its files";
  const std::pair<const char*, std::string> cases[] = {
      {"{}", nameless},
      {R"({"_data_files": []})", nameless},
      {R"({"_data_files": "x"})", nameless},
      {R"({"_data_files": ["x"]})", nameless},
      {R"({"_data_files": [{"filename": "../x"}]})", nameless},
      {R"({"_indices_files": [{"filename": "../i"}], "_data_files": [{"filename": "x"}]})",
       nameless},
      {"[]", "'" + state +
                 "' is not a JSON object\n"
                 "save the dataset again"},
  };
  for (const auto& [text, reported] : cases) {
    folder_.write("state.json", text);
    EXPECT_EQ(refusal(), reported) << text;
  }
}

/// Without Arrow the error says how to install it; with Arrow, that the file is missing.
TEST_F(ArrowFilesTest, WhatIsMissingIsTold) {
  folder_.write("tokenizer.json", kSmallTokenizer);
  const std::string reported = complaint([&] {
    build<Dataset>("{type: parquet, path: " + folder_.path("none") +
                   ", tokenizer: " + folder_.path("tokenizer.json") + "}");
  });
  if (::dlopen("libaccel_arrow.so", RTLD_NOW | RTLD_LOCAL)) {
    EXPECT_NE(reported.find(folder_.path("none") + "'"), reported.npos) << reported;
  } else {
    EXPECT_TRUE(reported.starts_with("'" + folder_.path("none") +
                                     "' requires the reader of Parquet and Arrow files: "))
        << reported;
    EXPECT_TRUE(reported.ends_with("run 'tools/bootstrap.sh arrow' and build accel-run again"));
    EXPECT_TRUE(complaint([&] { require_arrow("a.arrow"); })
                    .ends_with("build accel-run again, or convert the file: python3 -c \"import "
                               "datasets; datasets.Dataset.from_file('a.arrow').to_json("
                               "'a.jsonl')\""));
  }
}

}  // namespace
}  // namespace accel::arrow_test
