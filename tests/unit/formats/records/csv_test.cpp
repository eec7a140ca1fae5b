#include "formats/records/csv.h"

#include <gtest/gtest.h>

#include "tests/unit/formats/test_bytes.h"

namespace accel::csv_test {
namespace {

/// Records as "line: [field][field]" lines.
std::string records(const std::string& text, CsvDialect dialect = {}) {
  CsvReader reader(bytes_of(text), dialect, "t.csv");
  std::string out;
  for (std::vector<std::string_view> fields; reader.next(fields);) {
    out += std::to_string(reader.line()) + ": ";
    for (const std::string_view field : fields) out += "[" + std::string(field) + "]";
    out += "\n";
  }
  return out;
}

std::string csv_complaint(const std::string& text, CsvDialect dialect = {}) {
  return complaint([&] { records(text, dialect); });
}

TEST(CsvTest, RecordsAreSplitIntoFields) {
  EXPECT_EQ(records("a,b,c\n1,,3\n"), "1: [a][b][c]\n2: [1][][3]\n");
  EXPECT_EQ(records("a,b\r\n1,2"), "1: [a][b]\n2: [1][2]\n");
  EXPECT_EQ(records("a,\n,b\n"), "1: [a][]\n2: [][b]\n");
  EXPECT_EQ(records(""), "");
}

TEST(CsvTest, QuotesEncloseDelimitersLinesAndQuotes) {
  EXPECT_EQ(records("\"a,b\",\"c\"\"d\",\"\"\n\"two\nlines\",x,\"\"\"\"\nlast,y,z\n"),
            "1: [a,b][c\"d][]\n2: [two\nlines][x][\"]\n4: [last][y][z]\n");
}

TEST(CsvTest, QuotingCanBeTurnedOff) {
  EXPECT_EQ(records("say \"hi\"\t1\n\"open\t0\n", {.delimiter = '\t', .quoting = false}),
            "1: [say \"hi\"][1]\n2: [\"open][0]\n");
}

TEST(CsvTest, SpacesAfterDelimitersAreSkippedIfAsked) {
  constexpr auto kText = "a, b,  c\n1, \"x, y\", 2\n,, 3\n";
  EXPECT_EQ(records(kText, {.skip_initial_space = true}),
            "1: [a][b][c]\n2: [1][x, y][2]\n3: [][][3]\n");
  EXPECT_EQ(csv_complaint(kText),
            "t.csv:2: a quote inside an unquoted field\n"
            "'skip_initial_space: true' skips the spaces before a quote");
}

TEST(CsvTest, EmptyLinesAndTheByteOrderMarkAreSkipped) {
  EXPECT_EQ(records("\xef\xbb\xbfsome,name\n\n\r\n1,2\n\n"), "1: [some][name]\n4: [1][2]\n");
  EXPECT_EQ(records("\n\n"), "");
}

TEST(CsvTest, LoneCarriageReturnsBelongToFields) {
  EXPECT_EQ(records("a\rb,c\n"), "1: [a\rb][c]\n");
}

TEST(CsvTest, AnotherNumberOfFieldsIsRefused) {
  EXPECT_EQ(csv_complaint("a,b\n1,2\n3\n"), "t.csv:3: has 1 fields, the first line has 2");
}

TEST(CsvTest, MisplacedQuotesAreRefused) {
  const std::string hint = "\n'quoting: false' reads quotes as plain characters";
  EXPECT_EQ(csv_complaint("a,b\"c\n"), "t.csv:1: a quote inside an unquoted field" + hint);
  EXPECT_EQ(csv_complaint("x,y\na,\"b\n\n"), "t.csv:2: an unclosed quote" + hint);
  EXPECT_EQ(csv_complaint("\"a\"b,c\n"), "t.csv:1: text after a closing quote");
}

TEST(CsvTest, TheRestOfARecordWithTextAfterAQuoteIsNoRecord) {
  const std::string table = "a,b\n\"x\ny,1\nz\" t,2\nc,3\n";
  CsvReader reader(bytes_of(table), {.delimiter = ',', .quoting = true}, "t.csv");
  std::vector<std::string_view> fields;
  EXPECT_TRUE(reader.next(fields));
  EXPECT_EQ(complaint([&] { reader.next(fields); }), "t.csv:2: text after a closing quote");
  EXPECT_TRUE(reader.next(fields));
  EXPECT_EQ(fields, (std::vector<std::string_view>{"c", "3"}));
  EXPECT_EQ(reader.line(), 5);
}

TEST(CsvTest, ARecordAboveTheLimitIsRefused) {
  const std::string big((16 << 20) + 3, 'x');
  EXPECT_EQ(csv_complaint("a\n" + big),
            "t.csv:2: a record of more than 16 MiB\n"
            "check for an unclosed quote");
  EXPECT_EQ(csv_complaint("a\n\"" + big + "\""),
            "t.csv:2: a record of more than 16 MiB\n"
            "check for an unclosed quote");
  EXPECT_EQ(csv_complaint(big, {.quoting = false}), "t.csv:1: a record of more than 16 MiB");
}

}  // namespace
}  // namespace accel::csv_test
