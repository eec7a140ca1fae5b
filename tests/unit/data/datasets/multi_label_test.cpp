// Targets of several labels or numbers, from records and tables.
#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "data/loader/host_batch.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::multi_label_test {
namespace {

class MultiLabelTest : public testing::Test {
 protected:
  std::string of_records(const std::string& content, const std::string& options) {
    folder_.write("t.jsonl", content);
    folder_.write("tokenizer.json", kSmallTokenizer);
    return "{type: jsonl, path: " + folder_.path("t.jsonl") +
           ", tokenizer: " + folder_.path("tokenizer.json") + ", " + options + "}";
  }
  std::string of_table(const std::string& content, const std::string& options) {
    folder_.write("t.csv", content);
    return "{type: csv, path: " + folder_.path("t.csv") + ", " + options + "}";
  }
  std::unique_ptr<Dataset> records(const std::string& content, const std::string& options) {
    return build<Dataset>(of_records(content, options));
  }
  std::unique_ptr<Dataset> table(const std::string& content, const std::string& options) {
    return build<Dataset>(of_table(content, options));
  }

  TempFolder folder_;
};

using Numbers = std::vector<float>;

Numbers target_of(const Dataset& data, int64_t index) {
  const Sample sample = data.sample(index);
  const auto values = sample.target.as<float>();
  return {values.begin(), values.end()};
}

void expect_labels(const Dataset& data, const std::vector<std::string>& labels) {
  const DataShape shape = data.shape();
  EXPECT_EQ(shape.target_type, DType::kF32);
  EXPECT_EQ(shape.target, Shape{static_cast<int64_t>(labels.size())});
  EXPECT_EQ(shape.labels, labels);
  EXPECT_EQ(shape.classes, 0);
}

TEST_F(MultiLabelTest, AListOfLabelsInARecord) {
  const auto data = records(
      "{\"text\": \"good\", \"tags\": [\"x\", \"z\"]}\n{\"text\": \"bad film\", \"tags\": []}\n"
      "{\"text\": \"bad\", \"tags\": [\"y\"]}\n",
      "target: tags, target_type: labels");
  expect_labels(*data, {"x", "y", "z"});
  EXPECT_EQ(target_of(*data, 0), (Numbers{1, 0, 1}));
  EXPECT_EQ(target_of(*data, 1), (Numbers{0, 0, 0}));
}

TEST_F(MultiLabelTest, NumbersOfLabelsAreTheirOwn) {
  const auto data =
      records("{\"text\": \"good\", \"tags\": [2, 0]}\n", "target: tags, target_type: labels");
  EXPECT_EQ(target_of(*data, 0), (Numbers{1, 0, 1}));
}

TEST_F(MultiLabelTest, AListOfNumbersIsForRegression) {
  const auto data =
      records("{\"text\": \"good\", \"y\": [0.5, 2]}\n", "target: y, target_type: number");
  EXPECT_EQ(data->shape().target, Shape{2});
  EXPECT_EQ(target_of(*data, 0), (Numbers{0.5f, 2}));
}

TEST_F(MultiLabelTest, SeveralFieldsOfFlags) {
  const auto data = records("{\"text\": \"good\", \"a\": 1, \"b\": false}\n",
                            "target: [a, b], target_type: labels");
  expect_labels(*data, {"a", "b"});
  EXPECT_EQ(target_of(*data, 0), (Numbers{1, 0}));
}

TEST_F(MultiLabelTest, FaultsOfRecordsAreNamed) {
  const std::string two = "{\"text\": \"good\", \"y\": [1, 2]}\n{\"text\": \"bad\", \"y\": [1]}\n";
  const std::string file = folder_.path("t.jsonl");
  EXPECT_EQ(complaint<Dataset>(of_records(two, "target: y, target_type: number")),
            file + ":2: field 'y' holds '[1]', 1 numbers, where the first has 2");
  EXPECT_EQ(complaint<Dataset>(of_records(two, "target: y, target_type: labels, labels: [a, b]")),
            file + ":1: field 'y' holds '1', none of the labels of the recipe");
  EXPECT_EQ(complaint<Dataset>(of_records("{\"text\": \"good\", \"y\": [0.5]}\n",
                                          "target: y, target_type: labels")),
            file + ":1: field 'y' holds '[0.5]', which is not a list of labels, each once");
  EXPECT_EQ(complaint<Dataset>(of_records("{\"text\": \"good\", \"a\": 1, \"b\": 2}\n",
                                          "target: [a, b], target_type: labels")),
            file + ":1: field 'b' holds '2', neither 0 nor 1");
}

TEST_F(MultiLabelTest, SeveralColumnsOfATable) {
  const auto data = table("u,a,b\n0.5,1,0\n2,0,1\n", "target: [a, b], target_type: labels");
  expect_labels(*data, {"a", "b"});
  EXPECT_EQ(data->shape().input, Shape{1});
  EXPECT_EQ(target_of(*data, 1), (Numbers{0, 1}));
}

TEST_F(MultiLabelTest, AColumnOfLists) {
  const auto data =
      table("u,tags\n0.5,\"x,y\"\n2,\n1,\"['z']\"\n", "target: tags, target_type: labels");
  expect_labels(*data, {"x", "y", "z"});
  EXPECT_EQ(target_of(*data, 0), (Numbers{1, 1, 0}));
  EXPECT_EQ(target_of(*data, 1), (Numbers{0, 0, 0}));
}

TEST_F(MultiLabelTest, SeveralNumbersOfATable) {
  const auto data = table("u,a,b\n0.5,1.5,0\n", "target: [b, a], target_type: number");
  EXPECT_EQ(data->shape().labels, std::vector<std::string>());
  EXPECT_EQ(target_of(*data, 0), (Numbers{0, 1.5f}));
}

TEST_F(MultiLabelTest, FaultsOfTablesAreNamed) {
  const std::string file = folder_.path("t.csv");
  EXPECT_EQ(complaint<Dataset>(of_table("u,a,b\n0.5,1,7\n", "target: [a, b], target_type: labels")),
            file + ":2: column 'b' holds '7', neither 0 nor 1");
  EXPECT_EQ(complaint<Dataset>(of_table("u,tags\n0.5,\"x,q\"\n",
                                        "target: tags, target_type: labels, labels: [x, y]")),
            file + ":2: column 'tags' holds 'x,q', with a label that the recipe does not list");
  EXPECT_EQ(
      complaint<Dataset>(of_table("u,tags\n0.5,\"x,,q\"\n", "target: tags, target_type: labels")),
      file +
          ":2: column 'tags' holds 'x,,q', not a list of labels, each once, such as a,b or "
          "[\"a\", \"b\"]");
  const std::string classes = complaint<Dataset>(of_table("u,a,b\n0.5,1,0\n", "target: [a, b]"));
  EXPECT_NE(classes.find("'target' names 2 columns, and 'target_type: classes' takes one"),
            classes.npos)
      << classes;
}

/// Targets of a text do not grow with its tokens.
TEST_F(MultiLabelTest, LabelsOfPaddedTextsAreStacked) {
  const auto data = records(
      "{\"text\": \"good\", \"tags\": [\"x\"]}\n{\"text\": \"bad film good\", \"tags\": [\"y\"]}\n",
      "target: tags, target_type: labels");
  Collator collator(2, data->shape().padding);
  for (int64_t i = 0; i < 2; ++i) collator.add(data->sample(i), i);
  const HostBatch batch = std::move(collator).finish();
  EXPECT_EQ(batch.targets.shape(), (Shape{2, 2}));
  EXPECT_EQ(batch.targets.as<float>()[3], 1);
}

}  // namespace
}  // namespace accel::multi_label_test
