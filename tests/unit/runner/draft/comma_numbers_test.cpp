#include "runner/draft/comma_numbers.h"

#include <gtest/gtest.h>

#include "tests/unit/formats/test_bytes.h"

namespace accel::comma_numbers_test {
namespace {

/// "decimal" or "thousands", and of a guess the example with its column.
std::string reading(const std::string& table) {
  const CommaReading found = read_commas(shared_bytes(table), {';'}, "t.csv");
  return (found.decimal ? "decimal" : "thousands") +
         (found.example.empty() ? "" : " " + found.example + " " + std::to_string(found.column));
}

struct Case {
  const char* table;
  const char* wanted;
};

TEST(CommaNumbersTest, TheWholeTableDecides) {
  const Case cases[] = {
      {"a;b\n1,500;x\n2,250;y\n", "decimal 1,500 0"},
      {"a;b\nx;-1,500\ny;+2,250\n", "decimal 1,500 1"},
      {"a;b\n1,500;x\n999;y\n", "thousands 1,500 0"},
      {"a;b\n1,500;7\n2,250;8\n", "decimal 1,500 0"},
      {"a;b\n1,500;x\n2,25;y\n", "decimal"},
      {"a;b\n1,500;3,5\n2,250;1\n", "decimal"},
      {"a;b\n1,500;x\n0,250;y\n", "decimal"},
      {"a;b\n1,500;x\n2250;y\n", "decimal"},
      {"a;b\n1,500;x\n12345,250;y\n", "decimal"},
      {"a;b\n1,500;x\n1,234,567;y\n", "thousands"},
      {"a;b\n1,500;x\n1,234.5;y\n", "thousands"},
      {"a;b\n1,500;x\n2,250;0.5\n", "thousands"},
      {"a;b\n1;x\n2;y, 3,500 of them\n", "thousands"},
  };
  for (const Case& each : cases) EXPECT_EQ(reading(each.table), each.wanted) << each.table;
}

}  // namespace
}  // namespace accel::comma_numbers_test
