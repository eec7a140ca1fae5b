#include "core/base/regex.h"

#include <gtest/gtest.h>

#include "core/base/format_error.h"

namespace accel::regex_test {
namespace {

template <class Act>
std::string fault_of(const Act& act) {
  try {
    act();
  } catch (const FormatError& error) {
    return error.what();
  }
  return "";
}

bool is_found(const std::string& python, const std::string& text) {
  const Regex regex(pcre_of_python(python));
  return Regex::Search(regex, text).next(0).has_value();
}

TEST(RegexTest, FindsOneMatchAfterTheOther) {
  const Regex regex("a+");
  Regex::Search search(regex, "baab a");
  const auto first = search.next(0), second = search.next(first->end);
  EXPECT_EQ(first->begin, 1U);
  EXPECT_EQ(first->end, 3U);
  EXPECT_EQ(second->begin, 5U);
  EXPECT_FALSE(search.next(second->end));
  EXPECT_FALSE(Regex::Search(Regex("^b$"), "a\nb").next(0));
  const Regex lines("^b$", true);
  EXPECT_TRUE(Regex::Search(lines, "a\nb").next(0));
}

TEST(RegexTest, FaultsAreSaid) {
  EXPECT_EQ(fault_of([] { Regex("a["); }),
            "is not a regular expression: missing terminating ] for character class");
  EXPECT_EQ(fault_of([] { Regex(std::string(8193, 'a')); }), "has more than 8192 bytes");
  EXPECT_EQ(fault_of([] {
              const Regex hostile("(?:a+)+[bc]");
              Regex::Search(hostile, std::string(60, 'a')).next(0);
            }),
            "fails on a text: match limit exceeded");
}

TEST(RegexTest, PythonsSyntaxIsRead) {
  EXPECT_TRUE(is_found(R"((?<=\.)q_proj\Z)", "layer.q_proj"));
  EXPECT_TRUE(is_found(R"((?i)Q_(?:PROJ)++$)", "layer.q_proj"));
  EXPECT_TRUE(is_found(R"((?P<x>a)b(?P=x))", "aba"));
  EXPECT_TRUE(is_found(R"(layers\.(?i:Q))", "layers.q"));
  EXPECT_FALSE(is_found(R"(layers\\.q)", "layers.q"));
  const std::pair<const char*, const char*> refused[] = {
      {"x(?i)a", "has '(?i)', which Python's re does not accept"},
      {"(*UTF)a", "has '(*', which Python's re does not accept"},
      {R"(a\Kb)", "has '\\K', which Python's re does not accept"},
      {"\xff", "is not UTF-8"},
  };
  for (const auto& item : refused) {
    EXPECT_EQ(fault_of([&] { pcre_of_python(item.first); }), item.second);
  }
}

}  // namespace
}  // namespace accel::regex_test
