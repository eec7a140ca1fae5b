// Types of table columns: numbers, categories, dates, ids and what is missing.
#include "runner/draft/sniff_table.h"

#include <gtest/gtest.h>

#include "core/base/error.h"
#include "tests/unit/formats/temp_folder.h"

namespace accel::sniff_table_test {
namespace {

/// `rows` lines of one column beside a number, made by `field` of the row.
template <class Field>
SniffedColumn column_of(const std::string& name, int rows, const Field& field) {
  const TempFolder work;
  std::string table = name + ",n\n";
  for (int i = 0; i < rows; ++i) table += std::string(field(i)) + "," + std::to_string(i) + "\n";
  return sniff_table(work.write("t.csv", table), false).columns.front();
}

std::string type_of(const SniffedColumn& column) {
  return type_text(column) + (column.missing ? ", missing " + std::to_string(column.missing) : "");
}

TEST(SniffTableTest, TypesAreFoundFromTheValues) {
  const auto number = [](int i) { return std::to_string(i * 0.5); };
  EXPECT_EQ(type_of(column_of("x", 40, number)), "number");
  EXPECT_EQ(type_of(column_of("x", 40, [](int i) { return std::to_string(i % 7); })), "integer");
  EXPECT_EQ(type_of(column_of("x", 40, [](int i) { return i % 2 ? "TRUE" : "no"; })), "boolean");
  EXPECT_EQ(type_of(column_of("x", 40, [](int i) { return i % 2 ? "1" : "0"; })), "integer");
  EXPECT_EQ(type_of(column_of("x", 40, [](int i) { return i % 2 ? "red" : "blue"; })),
            "category, 2 values");
  EXPECT_EQ(type_of(column_of("x", 40, [](int) { return "same"; })), "constant");
  EXPECT_EQ(type_of(column_of("x", 40, [](int) { return "NA"; })), "empty, missing 40");
  EXPECT_EQ(type_of(column_of("x", 40, [](int i) { return "C" + std::to_string(i); })), "id");
  EXPECT_EQ(type_of(column_of("x", 40, [](int i) { return "note no " + std::to_string(i); })),
            "text");
  EXPECT_EQ(type_of(column_of("Customer ID", 40, [](int i) { return std::to_string(i); })), "id");
  EXPECT_EQ(type_of(column_of("storeId", 40, [](int i) { return std::to_string(i % 3); })),
            "category, 3 values");
}

TEST(SniffTableTest, LongTextsWithOneBeginningAreDistinct) {
  const std::string instruction(300, 'a');
  const auto text = [&](int i) { return instruction + " b c " + std::to_string(i); };
  const SniffedColumn prompts = column_of("prompt", 40, text);
  EXPECT_EQ(prompts.distinct, 40U);
  EXPECT_EQ(type_of(prompts), "text");
  const SniffedColumn same = column_of("prompt", 40, [&](int) { return instruction; });
  EXPECT_EQ(same.distinct, 1U);
  EXPECT_EQ(type_of(same), "constant");
}

TEST(SniffTableTest, NumbersThatAreNotFiniteAreMissing) {
  const SniffedColumn column = column_of("x", 40, [](int i) {
    return i == 3 ? "inf" : i == 4 ? "-Infinity" : i == 5 ? "1e400" : i == 6 ? "1e39" : "2.5";
  });
  EXPECT_EQ(column.missing, 4);
  EXPECT_EQ(column.infinite, (std::vector<std::string>{"-Infinity", "1e39", "1e400", "inf"}));
  const SniffedColumn small = column_of("x", 40, [](int i) { return i ? "1e-400" : "2"; });
  EXPECT_TRUE(small.infinite.empty());
  EXPECT_TRUE(column_of("x", 40, [](int i) { return i % 2 ? "inf" : "sup"; }).infinite.empty());
}

TEST(SniffTableTest, NumbersWithLeadingZerosAreCodes) {
  const auto code = [](int i) { return "0123" + std::to_string(i % 8); };
  const SniffedColumn zip = column_of("zip", 40, code);
  EXPECT_EQ(type_of(zip), "category, 8 values");
  EXPECT_EQ(zip.code, "01230");
  EXPECT_EQ(type_of(column_of("zip", 40, [](int i) { return "00" + std::to_string(i); })), "id");
  EXPECT_EQ(type_of(column_of("month", 40, [](int i) { return "0" + std::to_string(i % 9 + 1); })),
            "integer");
  EXPECT_EQ(type_of(column_of("x", 40, [](int i) { return "0." + std::to_string(i + 1); })),
            "number");
}

TEST(SniffTableTest, AnIndexWithoutANameIsDescribed) {
  const auto number = [](int i) { return std::to_string(i); };
  EXPECT_EQ(column_of("", 40, number).reason, "row numbers, of a column without a name");
  EXPECT_EQ(column_of("Unnamed: 0", 40, number).reason, "row numbers, of a column without a name");
  EXPECT_EQ(column_of("user_id", 40, number).reason, "an id, by its name");
}

TEST(SniffTableTest, MissingValuesAreCountedAndNotAveraged) {
  const auto holes = [](int i) { return i % 4 == 0 ? "n/a" : i % 4 == 1 ? "" : "10"; };
  EXPECT_EQ(type_of(column_of("x", 40, holes)), "constant, missing 20");
  const SniffedColumn ages = column_of("x", 40, [](int i) {
    return i < 10 ? "-" : i % 2 ? "30" : "50";
  });
  EXPECT_EQ(type_of(ages), "integer, missing 10");
  EXPECT_DOUBLE_EQ(ages.moments.mean, 40);
  EXPECT_DOUBLE_EQ(ages.moments.deviation, 10);
  EXPECT_FALSE(ages.outliers);
  // A dash among words is a value.
  EXPECT_EQ(type_of(column_of("x", 40, [](int i) { return i % 2 ? "+" : "-"; })),
            "category, 2 values");
  const SniffedColumn far =
      column_of("x", 40, [](int i) { return i == 7 ? "100000" : std::to_string(i); });
  EXPECT_TRUE(far.outliers);
}

TEST(SniffTableTest, DatesHavePartsAndOtherFormsAreReported) {
  const SniffedColumn days =
      column_of("x", 20, [](int i) { return "2024-01-" + std::to_string(10 + i); });
  EXPECT_EQ(type_of(days), "date");
  EXPECT_EQ(days.parts, (std::vector<std::string>{"year", "month", "day", "weekday"}));
  EXPECT_DOUBLE_EQ(days.part_moments[2].mean, 19.5);
  EXPECT_DOUBLE_EQ(days.part_moments[0].deviation, 1);
  const SniffedColumn times =
      column_of("x", 20, [](int i) { return "2024-01-" + std::to_string(10 + i) + " 13:30:00"; });
  EXPECT_EQ(times.parts.back(), "hour");
  EXPECT_DOUBLE_EQ(times.part_moments.back().mean, 13);
  const SniffedColumn other =
      column_of("x", 20, [](int i) { return std::to_string(10 + i) + "/01/2024 8:00"; });
  EXPECT_EQ(type_of(other), "text");
  EXPECT_EQ(other.reason, "dates such as '10/01/2024 8:00' are not in the form 2024-12-31");
}

TEST(SniffTableTest, AlmostNumbersAreReportedWithTheirException) {
  const SniffedColumn column = column_of(
      "x", 100, [](int i) { return i == 50 ? std::string("unknown") : std::to_string(i); });
  EXPECT_EQ(type_of(column), "text");
  EXPECT_EQ(column.reason,
            "99 of 100 values are numbers, but not 'unknown': if it means missing, write NA");
}

TEST(SniffTableTest, HeadersAreFoundAboveNumbersAndRepeatedWords) {
  const TempFolder work;
  const auto header = [&](const std::string& table) {
    return sniff_table(work.write("t.csv", table), false).header;
  };
  EXPECT_TRUE(header("a,b\n1,2\n3,4\n"));
  EXPECT_FALSE(header("1,2\n3,4\n5,6\n"));
  EXPECT_TRUE(header("name,2019,2020\nx,1,2\ny,3,4\n"));
  EXPECT_TRUE(header("id,x\n1,NA\n2,5\n"));
  EXPECT_TRUE(header("color,shape\nred,round\nblue,square\nred,round\nblue,square\n"));
  EXPECT_FALSE(header("red,round\nblue,square\nred,round\nblue,square\n"));
}

TEST(SniffTableTest, ColumnsWithoutAnOwnNameAreNumbered) {
  const TempFolder work;
  const SniffedTable table = sniff_table(work.write("t.csv", "a,,a\n1,2,3\n4,5,6\n"), false);
  EXPECT_EQ(table.columns[0].name, "a");
  EXPECT_EQ(table.columns[1].name, "1");
  EXPECT_EQ(table.columns[2].name, "2");
}

std::string complaint_of(const std::string& content) {
  const TempFolder work;
  try {
    sniff_table(work.write("t.csv", content), false);
  } catch (const DataError& error) {
    std::string text = std::string(error.what()) + " / " + error.hint();
    for (size_t at = 0; (at = text.find(work.path())) != text.npos;) {
      text.erase(at, work.path().size() + 1);
    }
    return text;
  }
  return "";
}

TEST(SniffTableTest, RefusesOtherEncodingsAndTablesWithoutRows) {
  EXPECT_EQ(complaint_of("a,b\n1,\xe9\n"),
            "t.csv:2 is not UTF-8 / convert it: iconv -f latin1 -t utf-8 't.csv' > utf8.csv");
  EXPECT_EQ(complaint_of(std::string("\xff\xfe"
                                     "a\0,\0",
                                     6)),
            "'t.csv' is UTF-16, and UTF-8 is wanted / convert it: iconv -f utf-16 -t utf-8 't.csv' "
            "> utf8.csv");
  EXPECT_EQ(complaint_of("a,b\n"), "'t.csv' has one line, and no rows of data / ");
  EXPECT_EQ(complaint_of("a,b\n1,2\n"), "'t.csv' has 1 rows, at least 2 are needed to train / ");
  EXPECT_EQ(complaint_of(""), "'t.csv' is empty / ");
  EXPECT_EQ(
      complaint_of("a,b\r1,2\r3,4\r"),
      "the lines of 't.csv' end with a carriage return alone / convert them: tr '\\r' '\\n' < "
      "'t.csv' > table.csv");
  EXPECT_EQ(
      complaint_of("sales of 2024\na,b\n1,2\n"),
      "t.csv:2: has 2 fields, the first line has 1 / correct or remove the line; remove a title "
      "above the table: tail -n +2 't.csv' > table.csv");
  EXPECT_EQ(complaint_of("# one\n# two\na,b\n1,2\n"),
            "t.csv:1 is a comment, and the first line of a table is a header or a row / remove it: "
            "sed '/^#/d' 't.csv' > table.csv");
}

}  // namespace
}  // namespace accel::sniff_table_test
