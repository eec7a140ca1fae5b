#include "data/datasets/table.h"

#include <sstream>

#include <gtest/gtest.h>

#include "core/api/dataset.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::table_test {
namespace {

class TableTest : public testing::Test {
 protected:
  std::unique_ptr<Dataset> table(const std::string& content, const std::string& options,
                                 const std::string& type = "csv") {
    folder_.write("t.csv", content);
    return build<Dataset>("type: " + type + "\npath: " + path_ + "\n" + options);
  }

  /// Rows as "1 2.5 -> 0" lines.
  static std::string rows(const Dataset& data) {
    std::ostringstream out;
    for (int64_t i = 0; i < data.size(); ++i) {
      const Sample sample = data.sample(i);
      for (const float value : sample.input.as<float>()) out << value << " ";
      out << "-> ";
      if (sample.target.type() == DType::kI64) out << sample.target.as<int64_t>()[0] << "\n";
      if (sample.target.type() == DType::kF32) out << sample.target.as<float>()[0] << "\n";
    }
    return out.str();
  }

  std::string table_complaint(const std::string& content, const std::string& options) {
    return complaint([&] { table(content, options); });
  }

  TempFolder folder_;
  const std::string path_ = folder_.path("t.csv");
};

TEST_F(TableTest, NumbersBecomeFeaturesAndLabelsClasses) {
  const auto data = table("a,b,kind\n1,2.5,dog\n-3,1e2,cat\n", "target: kind\n");
  EXPECT_EQ(rows(*data), "1 2.5 -> 1\n-3 100 -> 0\n");
  const DataShape shape = data->shape();
  EXPECT_EQ(shape.input, Shape{2});
  EXPECT_EQ(shape.input_type, DType::kF32);
  EXPECT_EQ(shape.classes, 2);
  EXPECT_EQ(shape.labels, (std::vector<std::string>{"cat", "dog"}));
}

TEST_F(TableTest, ANumberHasOneSign) {
  EXPECT_EQ(rows(*table("a,y\n+1.5,0\n-2,1\n", "target: y\n")), "1.5 -> 0\n-2 -> 1\n");
  const std::string found = table_complaint("a,y\n1,0\n+-1,1\n", "target: y\n");
  EXPECT_EQ(found.substr(0, found.find('\n')), path_ + ":3: column 'a' holds '+-1', not a number");
}

TEST_F(TableTest, ColumnsAreChosenByNameOrNumber) {
  const std::string text = "a,b,c\n1,2,3\n4,5,6\n";
  EXPECT_EQ(rows(*table(text, "target: c\ntarget_type: number\nfeatures: [b]\n")),
            "2 -> 3\n5 -> 6\n");
  EXPECT_EQ(rows(*table(text, "target: 0\ntarget_type: number\nfeatures: [2, b]\n")),
            "3 2 -> 1\n6 5 -> 4\n");
}

TEST_F(TableTest, AHeaderIsRecognisedByItsLackOfNumbers) {
  EXPECT_EQ(table("1,2\n3,4\n", "target: 1\n")->size(), 2);
  EXPECT_EQ(table("a,b\n3,4\n", "target: 1\n")->size(), 1);
  EXPECT_EQ(table("1,2\n3,4\n", "target: 1\nheader: true\n")->size(), 1);
}

TEST_F(TableTest, AHeaderIsRecognisedByTheColumnsOfTheRecipe) {
  const std::string text = "plan,y\na,no\nb,yes\n";
  EXPECT_EQ(rows(*table(text, "target: y\none_hot: {plan: []}\n")), "1 0 -> 0\n0 1 -> 1\n");
  EXPECT_EQ(table(text, "target: 1\none_hot: {0: []}\n")->size(), 3);
}

TEST_F(TableTest, LabelsThatAreWholeNumbersAreTheirOwn) {
  const auto data = table("1,10\n2,9\n3,0\n", "target: 1\n");
  EXPECT_EQ(rows(*data), "1 -> 10\n2 -> 9\n3 -> 0\n");
  EXPECT_EQ(data->shape().classes, 11);
  EXPECT_TRUE(data->shape().labels.empty());
}

TEST_F(TableTest, LabelsCanBeGivenSoThatFilesAgree) {
  const std::string options = "target: 1\nlabels: [bird, dog, cat]\nheader: false\n";
  EXPECT_EQ(rows(*table("1,cat\n2,dog\n", options)), "1 -> 2\n2 -> 1\n");
  EXPECT_EQ(table_complaint("1,cat\n2,fish\n", options),
            path_ + ":2: column 1 holds 'fish', none of the values the recipe lists");
  EXPECT_EQ(table_complaint("1,cat\n", "target: 1\nlabels: [cat, dog, cat]\n"),
            "'labels' lists 'cat' twice");
}

TEST_F(TableTest, CategoriesBecomeOneHot) {
  const std::string text = "sex,port,age,y\nm,S,1,0\nf,,2,1\n";
  EXPECT_EQ(rows(*table(text, "target: y\none_hot: {sex: [f, m], port: []}\nna_values: []\n")),
            "0 1 0 1 1 -> 0\n1 0 1 0 2 -> 1\n");
  EXPECT_EQ(rows(*table(text, "target: y\none_hot: {sex: [f, m], port: ['', S]}\n")),
            "0 1 0 1 1 -> 0\n1 0 1 0 2 -> 1\n");
  EXPECT_EQ(table_complaint(text, "target: y\none_hot: {age: [], sex: [m], port: ['', S]}\n"),
            path_ + ":3: column 'sex' holds 'f', none of the values the recipe lists");
  EXPECT_EQ(table_complaint(text, "target: y\nfeatures: [age]\none_hot: {sex: []}\n"),
            "'one_hot' names the column 'sex', which is not among the features");
}

TEST_F(TableTest, EmptyFieldsAreFilledOnlyWhenAsked) {
  EXPECT_EQ(rows(*table("1,2\n,4\n", "target: 1\nfill: -1\n")), "1 -> 2\n-1 -> 4\n");
}

TEST_F(TableTest, TextIsRefusedWithItsPlace) {
  EXPECT_EQ(table_complaint("x,name,y\n1,Ann,0\n", "target: y\n"),
            path_ +
                ":2: column 'name' holds 'Ann', not a number\n"
                "list it under 'one_hot', leave it out of 'features', or name it as 'text', with a "
                "'tokenizer'; 'na_values' lists texts that mean a missing value");
  EXPECT_EQ(table_complaint("1,2\n1e999,4\n", "target: 1\n").find(path_ + ":2: column 0 holds"),
            0u);
  EXPECT_EQ(table_complaint("1,2\ninf,4\n", "target: 1\n").find(path_ + ":2: column 0 holds 'inf'"),
            0u);
}

TEST_F(TableTest, MissingColumnsNameTheNearestOne) {
  EXPECT_EQ(table_complaint("age,size\n1,2\n", "target: sise\n"),
            "'target' names the column 'sise', which '" + path_ + "' lacks\ndid you mean 'size'?");
  EXPECT_EQ(table_complaint("1,2\n3,4\n", "target: 2\n"),
            "'target' names the column '2', which '" + path_ +
                "' lacks\nit has no header line; its columns are 0 to 1");
  EXPECT_EQ(table_complaint("age,size\n1,2\n", "target: weight\n"),
            "'target' names the column 'weight', which '" + path_ +
                "' lacks\nit has the columns 'age', 'size'");
}

TEST_F(TableTest, TablesWithoutRowsAreRefused) {
  EXPECT_EQ(table_complaint("", "target: 0\n"), "'" + path_ + "' is empty");
  EXPECT_EQ(table_complaint("c,d\n", "target: 0\nheader: true\n"),
            "'" + path_ +
                "' has a header line, but no rows\nif its line is a row, write 'header: false'");
  EXPECT_EQ(table_complaint("a,b\n", "target: b\n"),
            "'" + path_ +
                "' has a header line, but no rows\nif its line is a row, write 'header: false'");
  EXPECT_EQ(table_complaint("1\n2\n", "target: 0\n"), "the table has no column but its target");
}

TEST_F(TableTest, TsvTakesQuotesAsTheyAre) {
  EXPECT_EQ(rows(*table("1\t\"a\n2\tb\"\n", "target: 1\n", "tsv")), "1 -> 0\n2 -> 1\n");
  EXPECT_EQ(rows(*table("1;\"a\"\n2;b\n", "target: 1\ndelimiter: ';'\n")), "1 -> 0\n2 -> 1\n");
}

TEST_F(TableTest, DelimitersAreSingleCharacters) {
  EXPECT_NE(table_complaint("1,2\n", "target: 1\ndelimiter: ', '\n")
                .find("'delimiter' must be a single character other than a quote and a line end"),
            std::string::npos);
}

TEST_F(TableTest, TheFingerprintFollowsTheContent) {
  const std::string first = table("1,2\n", "target: 1\n")->fingerprint();
  EXPECT_EQ(table("1,2\n", "target: 1\n")->fingerprint(), first);
  EXPECT_NE(table("1,3\n", "target: 1\n")->fingerprint(), first);
}

class TextTableTest : public TableTest {
 protected:
  TextTableTest() { folder_.write("tokenizer.json", kSmallTokenizer); }

  std::string with_tokenizer(const std::string& options) const {
    return options + "tokenizer: " + folder_.path("tokenizer.json") + "\n";
  }

  /// "2 5 3 -> 0" lines.
  static std::string tokens(const Dataset& data) {
    std::ostringstream out;
    for (int64_t i = 0; i < data.size(); ++i) {
      const Sample sample = data.sample(i);
      for (const int64_t token : sample.input.as<int64_t>()) out << token << " ";
      out << "-> " << sample.target.as<int64_t>()[0] << "\n";
    }
    return out.str();
  }
};

TEST_F(TextTableTest, AColumnOfTextBecomesTokens) {
  const auto data =
      table("Good film\t1\n\"bad\tx\n", with_tokenizer("text: 0\ntarget: 1\n"), "tsv");
  EXPECT_EQ(tokens(*data), "2 5 7 3 -> 0\n2 1 6 3 -> 1\n");
  const DataShape shape = data->shape();
  EXPECT_EQ(shape.input, Shape{128});
  EXPECT_EQ(shape.vocab, 9);
  EXPECT_EQ(shape.labels, (std::vector<std::string>{"1", "x"}));
  ASSERT_TRUE(shape.padding);
  EXPECT_EQ(shape.padding->input, 0);
}

TEST_F(TextTableTest, TwoColumnsAreAPair) {
  const auto data =
      table("q,a,y\ngood,\"bad, film\",0\n", with_tokenizer("text: [q, a]\ntarget: y\n"));
  EXPECT_EQ(tokens(*data), "2 5 3 6 1 7 3 -> 0\n");
  const Sample sample = data->sample(0);
  const auto segments = sample.segments.as<int64_t>();
  EXPECT_EQ(std::vector<int64_t>(segments.begin(), segments.end()),
            (std::vector<int64_t>{0, 0, 0, 1, 1, 1, 1}));
}

TEST_F(TextTableTest, OptionsThatDoNotGoTogetherAreRefused) {
  const auto refusal = [&](const std::string& options) {
    const std::string all = table_complaint("a,1\n", "target: 1\n" + options);
    return all.substr(0, all.find('\n'));
  };
  const std::string at = "recipe.yaml:1:1: error: ";
  EXPECT_EQ(refusal("text: 0\n"), at + "'text' is turned into tokens, which takes a 'tokenizer'");
  EXPECT_EQ(refusal(with_tokenizer("")),
            at + "'tokenizer' is for a column of text, and 'text' names none");
  EXPECT_EQ(refusal(with_tokenizer("text: [0, 1, 2]\n")),
            at + "'text' names 3 columns, but a sample is one text or a pair");
  EXPECT_EQ(refusal(with_tokenizer("text: 0\nfill: 0\n")),
            at + "'text' makes the text the only input, but 'features', 'one_hot', 'booleans', "
                 "'dates' and 'fill' apply to numbers");
  const std::string leak = refusal(with_tokenizer("text: [0, 1]\n"));
  EXPECT_EQ(
      leak.substr(leak.find(" error: ")),
      " error: 'text' names the target column '1', from which the model would read the answer");
}

TEST_F(TextTableTest, ColumnsOfTextMustBeThere) {
  EXPECT_EQ(table_complaint("a,1\n", with_tokenizer("target: 1\ntext: 2\n")),
            "'text' names the column '2', which '" + path_ +
                "' lacks\nit has no header line; its columns are 0 to 1");
}

TEST_F(TextTableTest, TheFingerprintFollowsTheTokensToo) {
  const std::string options = with_tokenizer("text: 0\ntarget: 1\n");
  const std::string first = table("good,1\n", options)->fingerprint();
  EXPECT_EQ(table("good,1\n", options)->fingerprint(), first);
  EXPECT_NE(table("good,1\n", options + "max_length: 9\n")->fingerprint(), first);
}

}  // namespace
}  // namespace accel::table_test
