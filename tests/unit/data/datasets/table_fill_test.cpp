// Missing values, booleans, dates and delimiters of tables.
#include "data/datasets/table_fill.h"

#include <gtest/gtest.h>

#include <sstream>

#include "core/api/fitted_values.h"
#include "core/api/row_values.h"
#include "data/datasets/table.h"
#include "data/loader/curriculum.h"
#include "tests/unit/build_component.h"
#include "tests/unit/data/small_tokenizer.h"
#include "tests/unit/formats/temp_folder.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::table_fill_test {
namespace {

class TableFillTest : public testing::Test {
 protected:
  std::unique_ptr<Dataset> table(const std::string& content, const std::string& options,
                                 const DatasetContext& context = {}) {
    folder_.write("t.csv", content);
    return build<Dataset>("type: csv\npath: " + path_ + "\ntarget: y\n" + options, context);
  }

  std::string table_complaint(const std::string& content, const std::string& options) {
    return complaint([&] { table(content, options); });
  }

  /// Inputs as "1 2.5|" for each row.
  static std::string rows(const Dataset& data) {
    std::ostringstream out;
    for (int64_t i = 0; i < data.size(); ++i) {
      const Sample sample = data.sample(i);
      const auto values = sample.input.as<float>();
      for (size_t k = 0; k < values.size(); ++k) out << (k ? " " : "") << values[k];
      out << "|";
    }
    return out.str();
  }

  static FittedValues& fitted(Dataset& data) { return dynamic_cast<FittedValues&>(data); }

  TempFolder folder_;
  const std::string path_ = folder_.path("t.csv");
};

constexpr auto kAges = "age,y\n1,0\n,1\n2,0\n2,1\n7,0\n";

TEST_F(TableFillTest, ARuleReplacesMissingValues) {
  EXPECT_EQ(rows(*table(kAges, "fill: mean\n")), "1|3|2|2|7|");
  EXPECT_EQ(rows(*table(kAges, "fill: median\n")), "1|2|2|2|7|");
  EXPECT_EQ(rows(*table(kAges, "fill: mode\n")), "1|2|2|2|7|");
  EXPECT_EQ(rows(*table(kAges, "fill: {age: -0.5}\n")), "1|-0.5|2|2|7|");
  EXPECT_EQ(rows(*table(kAges, "fill: drop\n")), "1|2|2|7|");
}

TEST_F(TableFillTest, SomeRowMustBeComplete) {
  EXPECT_EQ(table_complaint("age,pay,y\n,1,0\n1,,1\n", "fill: drop\n"),
            "all 2 rows of '" + path_ +
                "' are left out: each lacks a value\ngive 'fill' another rule than drop");
}

TEST_F(TableFillTest, ADroppedRowTakesItsTargetWithIt) {
  const auto data = table("age,y\n1,0\n,9\n2,3\n", "fill: drop\ntarget_type: number\n");
  ASSERT_EQ(data->size(), 2);
  EXPECT_EQ(data->sample(1).target.as<float>()[0], 3);
}

TEST_F(TableFillTest, WhatMeansMissingIsListed) {
  const std::string text = "age,y\n1,0\nn/a,1\n NA ,0\n?,1\n5,0\n";
  EXPECT_EQ(rows(*table(text, "fill: 0\n")), "1|0|0|0|5|");
  EXPECT_EQ(rows(*table("age,y\n1,0\n-99,1\n", "na_values: ['-99']\nfill: mean\n")), "1|1|");
  EXPECT_EQ(table_complaint(text, "na_values: [n/a]\nfill: 0\n"),
            path_ +
                ":4: column 'age' holds ' NA ', not a number\n"
                "list it under 'one_hot', leave it out of 'features', or name it as 'text', with a "
                "'tokenizer'; 'na_values' lists texts that mean a missing value");
}

TEST_F(TableFillTest, ColumnsWithoutARuleAreReportedTogether) {
  EXPECT_EQ(
      table_complaint("age,plan,pay,y\n1,a,x,0\n,b,2,1\n,c,3,\n", "one_hot: {plan: [a, b]}\n"),
      "'" + path_ +
          "' has values that cannot be used:\n"
          "  column 'age': 2 of 3 missing, first in line 3\n"
          "  column 'plan': 1 of 3 none of the values the recipe lists, first 'c' in line 4\n"
          "  column 'pay': 1 of 3 not a number, first 'x' in line 2\n"
          "  column 'y': 1 of 3 missing, first in line 4\n"
          "write a rule for missing values, such as 'fill: {age: mean}'; the rules are mean, "
          "median, mode, drop, or a value");
  EXPECT_EQ(
      table_complaint("age,y\n1,0\n1,\n", ""),
      "'" + path_ +
          "' has values that cannot be used:\n"
          "  column 'y': 1 of 2 missing, first in line 3\n"
          "'fill: {y: drop}' leaves out the rows without a target, 'na_values: []' takes every "
          "text as a label");
  EXPECT_EQ(rows(*table("age,y\n1,0\n2,\n", "fill: {y: drop}\n")), "1|");
}

TEST_F(TableFillTest, RowsWithoutATargetAreRefusedInTextToo) {
  folder_.write("tokenizer.json", kSmallTokenizer);
  EXPECT_EQ(table_complaint("a,y\ngood,1\nbad,\n",
                            "text: a\nheader: true\ntokenizer: " + folder_.path("tokenizer.json")),
            "'" + path_ +
                "' has values that cannot be used:\n"
                "  column 'y': 1 of 2 missing, first in line 3\n"
                "remove the rows without a target, or write 'na_values: []' if it is a label");
}

TEST_F(TableFillTest, RowsWithMissingValuesCanBeSkipped) {
  testing::internal::CaptureStderr();
  EXPECT_EQ(rows(*table("age,y\n1,0\n,1\n2,0\n", "on_bad_sample: skip(1)\n")), "1|2|");
  EXPECT_EQ(testing::internal::GetCapturedStderr(),
            "warning: '" + path_ + "': 1 sample skipped as unreadable, 2 samples read\n  " + path_ +
                ":3: column 'age' holds '', a missing value\n");
}

TEST_F(TableFillTest, CategoriesTakeTheMostFrequent) {
  const std::string text = "plan,age,y\nb,1,0\na,,1\n,2,0\nb,3,1\n";
  EXPECT_EQ(rows(*table(text, "one_hot: {plan: []}\nfill: mean\n")), "0 1 1|1 0 2|0 1 2|0 1 3|");
  EXPECT_EQ(rows(*table(text, "one_hot: {plan: []}\nfill: {plan: none so far, age: 0}\n")),
            "0 1 0 1|1 0 0 0|0 0 1 2|0 1 0 3|");
  EXPECT_EQ(
      table_complaint(text, "one_hot: {plan: []}\nfill: 0\n"),
      "'" + path_ +
          "' has values that cannot be used:\n"
          "  column 'plan': 1 of 4 missing, first in line 4\n"
          "write a rule for missing values, such as 'fill: {plan: mean}'; the rules are mean, "
          "median, mode, drop, or a value");
}

TEST_F(TableFillTest, ARuleMustFitItsColumn) {
  const std::string text = "plan,day,y\nb,2024-01-01,0\na,2024-01-02,1\n";
  const std::string columns = "one_hot: {plan: []}\ndates: {day: [year]}\n";
  EXPECT_EQ(table_complaint(text, columns + "fill: {plan: mean}\n"),
            "'fill' gives the column 'plan' the mean, but it holds categories\n"
            "give it 'mode', 'drop' or one of its values");
  EXPECT_EQ(table_complaint(text, columns + "fill: {day: 5}\n"),
            "'fill' gives the column 'day' the value '5', which is not a date\n"
            "the rules are mean, median, mode, drop, or a value of the column");
  EXPECT_EQ(table_complaint(text, columns + "fill: {y: mean}\n"),
            "'fill' gives the target column 'y' a value\n"
            "a row without a target can only be left out: 'drop'");
  EXPECT_EQ(table_complaint("age,y\n,0\n,1\n", "fill: mean\nheader: true\n"),
            "column 'age' has no value in the training samples: there is no mean\n"
            "leave it out of 'features', or fill it with a value");
}

TEST_F(TableFillTest, AColumnHasOneKind) {
  EXPECT_EQ(table_complaint("a,y\n1,0\n", "booleans: [a]\none_hot: {a: []}\n"),
            "'booleans' names the column 'a', which another option names too\n"
            "a column is in one of 'one_hot', 'booleans' and 'dates'");
  EXPECT_EQ(table_complaint("a,y\n1,0\n", "dates: {a: []}\n"),
            "'dates' names no feature of the column 'a'\n"
            "choose among year, month, day, weekday, hour and timestamp");
}

TEST_F(TableFillTest, BooleansAreOneOrZeroInAnyCase) {
  EXPECT_EQ(rows(*table("b,y\nTRUE,0\nno,0\nT,0\nf,0\nY,0\n0,0\n", "booleans: [b]\n")),
            "1|0|1|0|1|0|");
  EXPECT_EQ(table_complaint("b,y\nTRUE,0\nmaybe,0\n", "booleans: [b]\n"),
            path_ + ":3: column 'b' holds 'maybe', neither true nor false");
}

TEST_F(TableFillTest, DatesBecomeTheFeaturesAskedFor) {
  const std::string all = "dates: {d: [year, month, day, weekday, hour, timestamp]}\n";
  EXPECT_EQ(rows(*table("d,y\n1970-01-02,0\n2024/02/29 13:00,1\n2024-02-29T23:30:00Z,0\n", all)),
            "1970 1 2 4 0 1|2024 2 29 3 13 19782.5|2024 2 29 3 23 19783|");
  // A zone changes the day.
  EXPECT_EQ(rows(*table("d,y\n2024-03-01T00:30+02:00,0\n2024-02-29 23:59:59.5-0030,1\n",
                        "dates: {d: [month, day, hour]}\n")),
            "2 29 22|3 1 0|");
  EXPECT_EQ(
      rows(*table("d,y\n1970-01-01,0\n,1\n1970-01-03,1\n", "dates: {d: [day]}\nfill: mean\n")),
      "1|2|3|");
  EXPECT_EQ(table_complaint("d,y\n31.01.2024,0\n2024-02-30,1\n", "dates: {d: [year]}\n"),
            path_ +
                ":2: column 'd' holds '31.01.2024', not a date such as 2024-01-31\n"
                "write dates as year-month-day: other orders are ambiguous");
  EXPECT_EQ(table_complaint("d,y\n2024-02-30,1\n", "dates: {d: [year]}\nheader: true\n"),
            path_ +
                ":2: column 'd' holds '2024-02-30', not a date such as 2024-01-31\n"
                "write dates as year-month-day: other orders are ambiguous");
}

TEST_F(TableFillTest, DatesWithAZoneAreInUtcBesideOthersWithout) {
  const std::string text =
      "d,y\n2024-01-01T10:00:00+02:00,0\n2024-01-01T10:00:00-05:30,1\n2024-01-01T10:00:00,0\n"
      "2024-01-01,1\n2024-01-01T00:30:00+0200,0\n";
  EXPECT_EQ(rows(*table(text, "dates: {d: [year, day, hour]}\n")),
            "2024 1 8|2024 1 15|2024 1 10|2024 1 0|2023 31 22|");
}

TEST_F(TableFillTest, NumbersWithThousandsSeparatorsAreRefused) {
  const auto hint = [&](const std::string& field, const std::string& options = "") {
    const std::string found =
        table_complaint("a;y\n1;0\n" + field + ";0\n", "delimiter: ';'\n" + options);
    EXPECT_EQ(found.substr(0, found.find('\n')),
              path_ + ":3: column 'a' holds '" + field + "', not a number");
    return found.substr(found.find('\n') + 1);
  };
  const std::string remove = "remove the thousands separators from the file";
  EXPECT_EQ(hint("1,500"), remove + "; if ',' is the decimal separator, write 'decimal: \",\"'");
  EXPECT_EQ(hint("-1,500,000"), remove);
  EXPECT_EQ(hint("12,500.25"), remove);
  EXPECT_EQ(hint("1.500.000,5", "decimal: ','\n"), remove);
  EXPECT_EQ(hint("1.500", "decimal: ','\n"),
            remove + "; if '.' is the decimal separator, write 'decimal: \".\"'");
  for (const std::string fraction : {"1,5", "0,125", "1500,125"}) {
    EXPECT_EQ(hint(fraction), "'decimal: \",\"' reads it as a number");
  }
}

TEST_F(TableFillTest, TheTargetIsNoFeature) {
  const std::string message =
      "', from which the model would read the answer\nleave it out of 'features'";
  EXPECT_EQ(table_complaint("a,y\n1,0\n2,1\n", "features: [a, y]\n"),
            "'features' names the target column 'y" + message);
  EXPECT_EQ(table_complaint("a,y\n1,0\n2,1\n", "features: [1]\n"),
            "'features' names the target column '1" + message);
}

TEST_F(TableFillTest, DecimalCommasAreReadWhenAsked) {
  const std::string text =
      "\xef\xbb\xbf"
      "a;b;y\n1,5;2;0\n2;3,25;1\n";
  EXPECT_EQ(rows(*table(text, "delimiter: ';'\ndecimal: ','\n")), "1.5 2|2 3.25|");
  EXPECT_EQ(table_complaint(text, ""),
            "'" + path_ +
                "' is not delimited by ',': its first lines have 3 fields each with ';'\n"
                "write 'delimiter: \";\"', and 'decimal: \",\"' for its decimal commas");
  EXPECT_EQ(table_complaint(text, "delimiter: ';'\n"),
            "'" + path_ +
                "' has values that cannot be used:\n"
                "  column 'a': 1 of 2 not a number, first '1,5' in line 2\n"
                "  column 'b': 1 of 2 not a number, first '3,25' in line 3");
  EXPECT_EQ(table_complaint("a;y\n1,5;0\n", "delimiter: ';'\nheader: true\n"),
            path_ +
                ":2: column 'a' holds '1,5', not a number\n'decimal: \",\"' reads it as a "
                "number");
  EXPECT_EQ(table_complaint("a\ty\n1\t0\n", ""),
            "'" + path_ +
                "' is not delimited by ',': its first lines have 2 fields each with tabs\n"
                "write 'type: tsv'");
  EXPECT_EQ(table_complaint("a,y\n1.5,0\n2,1\n", "decimal: ','\nquoting: false\ndelimiter: ';'\n"),
            "'target' names the column 'y', which '" + path_ +
                "' lacks\nit has no header line; its columns are 0 to 0");
}

TEST_F(TableFillTest, ValuesAreFittedToTheTrainingRowsOnly) {
  const auto data = table(kAges, "fill: mean\n");
  const std::vector<int64_t> train = {0, 1, 2};
  fitted(*data).fit(train);
  EXPECT_EQ(rows(*data), "1|1.5|2|2|7|");
  EXPECT_EQ(data->columns()->inputs.as<float>()[1], 1.5);
  EXPECT_EQ(fitted(*data).fitted(), "{\"fill\":{\"age\":1.5},\"features\":[\"age\"]}");
  EXPECT_EQ(fitted(*data).fitted_notes(),
            std::vector<std::string>{"age: 1 of 5 missing, filled with the mean 1.5"});
}

TEST_F(TableFillTest, EvalDataTakesTheValuesOfTheTrainingData) {
  const std::string options = "one_hot: {plan: []}\nfill: mean\n";
  const auto train = table("plan,age,y\nb,1,0\na,2,1\nb,6,0\n", options);
  const std::string values = fitted(*train).fitted();
  EXPECT_EQ(values, R"({"fill":{"plan":"b","age":3.0},"categories":{"plan":["a","b"]},)"
                    R"("features":["plan","age"]})");
  // Its own categories are one, and its own mean is 9.
  const auto eval = table("plan,age,y\nb,9,0\n,,1\n", options, {.train = false});
  fitted(*eval).use_fitted(values);
  EXPECT_EQ(rows(*eval), "0 1 9|0 1 3|");
  EXPECT_EQ(eval->columns()->inputs.shape(), (Shape{2, 3}));
  EXPECT_EQ(eval->shape().input, Shape{3});
  EXPECT_EQ(fitted(*eval).fitted_notes(),
            (std::vector<std::string>{"plan: 1 of 2 missing, filled with the mode 'b'",
                                      "age: 1 of 2 missing, filled with the mean 3"}));
  const auto other = table("plan,age,y\nc,9,0\n", options, {.train = false});
  EXPECT_EQ(complaint([&] { fitted(*other).use_fitted(values); }),
            path_ +
                ":2: column 'plan' holds 'c', which the training data lacks\n"
                "list all its values: 'one_hot: {plan: [...]}'");
  EXPECT_EQ(complaint([&] { fitted(*other).use_fitted("{"); }),
            "the fitted values of the training data are invalid\n"
            "they were saved by another version");
}

TEST_F(TableFillTest, FeaturesThatTheRecipeDoesNotListAreThoseOfTheTrainingDataInTheirOrder) {
  const std::string options = "one_hot: {plan: []}\nfill: mean\n";
  const std::string values =
      fitted(*table("plan,age,size,y\nb,1,7,0\na,3,8,1\n", options)).fitted();
  const auto eval = table("size,y,age,plan\n9,0,,a\n", options, {.train = false});
  fitted(*eval).use_fitted(values);
  EXPECT_EQ(rows(*eval), "1 0 2 9|");
  EXPECT_EQ(fitted(*eval).fitted_notes(),
            std::vector<std::string>{"age: 1 of 1 missing, filled with the mean 2"});
  const auto complaint_of = [&](const std::string& content) {
    const auto other = table(content, options, {.train = false});
    return complaint([&] { fitted(*other).use_fitted(values); });
  };
  const std::string hint = "list the columns that are features in the recipe: 'features: [...]'";
  EXPECT_EQ(complaint_of("plan,age,y\na,1,0\n"),
            "'" + path_ + "' lacks the column 'size' of the training data\n" + hint);
  EXPECT_EQ(
      complaint_of("plan,age,size,more,y\na,1,2,3,0\n"),
      "'" + path_ + "' has the column 'more', which is no feature of the training data\n" + hint);
  // Listed features are chosen by the recipe; columns without names by their places.
  EXPECT_EQ(fitted(*table("a,b,y\n1,2,0\n", "features: [b]\n")).fitted(), "");
  folder_.write("t.csv", "1,2,0\n");
  EXPECT_EQ(fitted(*build<Dataset>("type: csv\npath: " + path_ + "\ntarget: 2\n")).fitted(), "");
}

TEST_F(TableFillTest, TheNotesNameEachRule) {
  const auto data =
      table("a,b,c,d,y\n,1,x,2024-01-31,0\n1,,x,,1\n2,3,,2024-02-02,0\n,4,x,2024-01-31,1\n",
            "one_hot: {c: []}\ndates: {d: [day]}\nfill: {a: 0, b: drop, c: mode, d: mode}\n");
  EXPECT_EQ(fitted(*data).fitted_notes(),
            (std::vector<std::string>{"b: 1 of 4 missing, rows left out",
                                      "a: 2 of 4 missing, filled with 0",
                                      "c: 1 of 4 missing, filled with the mode 'x'"}));
}

TEST_F(TableFillTest, RowsKnowTheirClassesAndTheValuesOfAColumn) {
  const auto data = table("user,age,y\n7,1,0\n8,,1\n7,3,1\n", "features: [age]\nfill: drop\n");
  EXPECT_EQ(dynamic_cast<const ClassLabels&>(*data).class_of(1), 1);
  const auto keys = dynamic_cast<const RowKeys&>(*data).row_keys("user");
  ASSERT_EQ(keys.size(), 2u);
  EXPECT_EQ(keys[0], keys[1]);
  const auto ages = dynamic_cast<const RowKeys&>(*data).row_keys("age");
  EXPECT_NE(ages[0], ages[1]);
  EXPECT_EQ(complaint([&] { dynamic_cast<const RowKeys&>(*data).row_keys("usr"); }),
            "'group' names the column 'usr', which '" + path_ + "' lacks\ndid you mean 'user'?");
}

TEST_F(TableFillTest, RowsKnowTheNumbersOfAColumn) {
  const auto data = table("user,age,y\n7.5,1,0\n8,,1\n-1,3,1\n", "features: [age]\nfill: drop\n");
  const auto& rows = dynamic_cast<const RowNumbers&>(*data);
  EXPECT_EQ(rows.row_numbers("user"), (std::vector<double>{7.5, -1}));
  EXPECT_EQ(
      complaint([&] { rows.row_numbers("usr"); }),
      "'curriculum' names the column 'usr', which '" + path_ + "' lacks\ndid you mean 'user'?");
  const auto named = table("user,age,y\n7,1,0\nann,2,1\n", "features: [age]\n");
  EXPECT_EQ(complaint([&] { dynamic_cast<const RowNumbers&>(*named).row_numbers("user"); }),
            path_ + ":3: column 'user' of 'curriculum' holds 'ann', not a number");
}

TEST_F(TableFillTest, RulesAreWrittenAsTheyAreRead) {
  for (const char* yaml : {"mean", "none", "0.5", "{a: mean, b: 'x y', c: 3}"}) {
    Registry registry;
    Diagnostics problems;
    Reading reading{problems, registry};
    const auto rules = Codec<FillRules>::read(parse_recipe("r.yaml", yaml), "fill", reading);
    ASSERT_TRUE(rules) << yaml;
    EXPECT_EQ(detail::inline_text(Codec<FillRules>::write(*rules)), yaml);
  }
  EXPECT_EQ(
      complaint([&] { table(kAges, "fill: [mean]\n"); }).substr(0, 116),
      "recipe.yaml:4:7: error: 'fill' wants mean, median, mode, drop or a value, or a section "
      "of them by column, not a list");
}

}  // namespace
}  // namespace accel::table_fill_test
