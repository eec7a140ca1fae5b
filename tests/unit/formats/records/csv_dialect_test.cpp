// The delimiter and the decimal mark of a table, from its first records.
#include "formats/records/csv_dialect.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/unit/formats/test_bytes.h"

namespace accel::csv_dialect_test {
namespace {

/// The delimiter, then "q" for quoting, "," for decimal commas and "?" if no delimiter fits.
std::string dialect_of(const std::string& text, char usual = ',') {
  const DetectedDialect found = detect_dialect(bytes_of(text), {usual, usual != '\t'});
  return std::string(1, found.dialect.delimiter) + (found.dialect.quoting ? "q" : "") +
         (found.decimal_comma ? "," : "") + (found.certain ? "" : "?");
}

struct DialectCase {
  const char* text;
  char usual;
  const char* found;
};

TEST(CsvDialectTest, TheDelimiterThatSplitsEveryRecordIsFound) {
  const DialectCase cases[] = {
      {"a,b\n1,2\n", ',', ",q"},
      {"a;b\n1;2\n", ',', ";q"},
      {"a|b|c\n1|2|3\n", ',', "|q"},
      {"a\tb\n1\t2\n", ',', "\t"},
      {"a\tb\n1\t2\n", '\t', "\t"},
      {"a,b\n1,2\n", '\t', ",q"},
      {"a\t\"b\tc\"\n1\t2\n", '\t', "\tq"},
      {"\xef\xbb\xbf"
       "a;b\r\n1;2\r\n",
       ',', ";q"},
      // Commas in quoted text are no delimiters.
      {"name;note\nx;\"a, b\"\ny;\"c, d\"\n", ',', ";q"},
      {"one\ntwo\n", ',', ",q?"},
      {"a,b\n1,2,3\n", ',', ",q?"},
      {"", ',', ",q?"},
  };
  for (const DialectCase& test : cases) {
    EXPECT_EQ(dialect_of(test.text, test.usual), test.found) << test.text;
  }
}

TEST(CsvDialectTest, SpacesAfterEveryDelimiterAreSkipped) {
  const auto skips = [](const std::string& text) {
    return detect_dialect(bytes_of(text), {',', true}).dialect.skip_initial_space;
  };
  EXPECT_TRUE(skips("a, b\n1, 2\n"));
  EXPECT_TRUE(skips("a, b, c\n1, \"x,y\", 2\n3,,\n"));
  EXPECT_FALSE(skips("a, b\n1,2\n"));
  EXPECT_FALSE(skips("a,b\n1,\"x, y\"\n"));
  EXPECT_FALSE(skips("a,b\n1,2\n"));
}

TEST(CsvDialectTest, DecimalCommasNeedAnotherDelimiterAndNoDecimalPoint) {
  EXPECT_EQ(dialect_of("a;b\n1,5;2,25\n-0,5;3\n"), ";q,");
  EXPECT_EQ(dialect_of("1,5;2,5;3,5\n4,5;5,5;6,5\n"), ";q,");
  EXPECT_EQ(dialect_of("a;b\n1,5;2.5\n"), ";q");
  EXPECT_EQ(dialect_of("a,b\n1,5\n"), ",q");
  EXPECT_TRUE(has_decimal_comma("-1,5"));
  EXPECT_FALSE(has_decimal_comma("1,5,0"));
  EXPECT_FALSE(has_decimal_comma("15"));
  EXPECT_FALSE(has_decimal_comma("a,5"));
}

}  // namespace
}  // namespace accel::csv_dialect_test
