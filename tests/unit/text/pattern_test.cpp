#include "text/pattern.h"

#include <gtest/gtest.h>

#include <random>

#include "core/base/error.h"
#include "core/base/format_error.h"
#include "text/merges.h"
#include "text/unicode.h"

namespace accel::pattern_test {
namespace {

std::vector<std::string> matches_of(const std::string& expression, const std::string& text) {
  std::vector<TextSpan> spans;
  Pattern::regex(expression).find(text, spans);
  std::vector<std::string> matches;
  for (const TextSpan& span : spans)
    matches.push_back(text.substr(span.begin, span.end - span.begin));
  return matches;
}

using Texts = std::vector<std::string>;

TEST(PatternTest, ReadsClassesAsOnigurumaDoes) {
  EXPECT_EQ(matches_of(R"(\s+)", "a \t\u180e\u3000b"), (Texts{" \t", "\u3000"}));
  EXPECT_EQ(matches_of(R"(\w+)", "na\u0308ive \u0928\u092e\u0938\u094d\u0924\u0947 x_1 \u00b2"),
            (Texts{"na\u0308ive", "\u0928\u092e\u0938\u094d\u0924\u0947", "x_1"}));
  EXPECT_EQ(matches_of(R"([^\s\w]+)", "a+-b"), (Texts{"+-"}));
  EXPECT_EQ(matches_of(R"(\S\W)", "ab!"), (Texts{"b!"}));
  EXPECT_EQ(matches_of(R"([^\S\n]+)", "a \t\n\u3000b\u180e"), (Texts{" \t", "\u3000"}));
  EXPECT_EQ(matches_of(R"([\s\S]+)", "a \U0010ffff"), (Texts{"a \U0010ffff"}));
  // BLOOM's
  EXPECT_EQ(matches_of(" ?[^(\\s|[.,!?\u3002])]+", "a b.c (d|e)\u3002"),
            (Texts{"a", " b", "c", "d", "e"}));
  EXPECT_EQ(matches_of("b$", "b\nb"), (Texts{"b", "b"}));  // at the end of each line
}

TEST(PatternTest, ScriptsAreWithoutCharactersThatTheyShare) {
  // U+3002 and U+30FC are of the script Common, which Hiragana, Han and others use.
  EXPECT_EQ(matches_of(R"(\p{Han}+)", "\u65e5\u672c\u3002\u6f22"),
            (Texts{"\u65e5\u672c", "\u6f22"}));
  EXPECT_EQ(matches_of(R"([\p{Hiragana}\p{Katakana}]+)", "\u3042\u30a2\u30fc\u3002"),
            (Texts{"\u3042\u30a2"}));
  EXPECT_EQ(matches_of(R"(\P{Greek}\p{^Latin}\p{L})", "a\u03b1b"), (Texts{"a\u03b1b"}));
}

TEST(PatternTest, EmptyMatchesCutButNotBehindAMatch) {
  EXPECT_EQ(matches_of("(?=b)", "abab"), (Texts{"", ""}));
  EXPECT_EQ(matches_of("a*", "baac"), (Texts{"", "aa", ""}));
}

TEST(PatternTest, RefusesWhatTheEnginesReadDifferently) {
  const std::pair<const char*, const char*> refused[] = {
      {R"(\h)", "\\h"},
      {R"(a\1)", "\\1"},
      {R"([\W])", "\\W in [...]"},
      {"[a&&b]", "&&"},
      {"[a[^b]]", "[ in [...]"},
      {"[[:alpha:]]", "[ in [...]"},
      {"[a-[b]]", "[ in [...]"},
      {"a{,3}", "{,"},
      {"(?m:a)", "(?m"},
      {"(?R)", "(?R"},
      {"(*UTF)", "(*"},
      {R"(\K)", "\\K"},
      {R"(\pL)", "\\p"},
      {"[]a]", "[]"},
  };
  for (const auto& [expression, what] : refused) {
    try {
      pcre_pattern(expression);
      ADD_FAILURE() << expression;
    } catch (const FormatError& error) {
      EXPECT_EQ(error.what(), "has '" + std::string(what) + "', which is not supported");
    }
  }
}

TEST(PatternTest, HostilePatternsExceedTheMatchLimit) {
  try {
    matches_of("(?:a+)+[bc]", std::string(60, 'a'));
    FAIL();
  } catch (const DataError& error) {
    EXPECT_STREQ(error.what(),
                 "the tokenizer's pattern '(?:a+)+[bc]' fails on a text: match limit exceeded");
  }
}

TEST(PatternTest, ReplacesWithoutReadingTheContent) {
  EXPECT_EQ(replaced(Pattern::regex("b+"), "abbc", "$0"), "a$0c");
  EXPECT_EQ(replaced(Pattern::literal("."), "a.b", "-"), "a-b");
}

TEST(MergesTest, LongWordsMergeAsShortOnesDo) {
  // Few symbols and many rules: most merges are adjacent.
  std::mt19937 random(3);
  MergeTable table(400);
  for (int32_t i = 0; i < 400; ++i) {
    const auto symbol = [&] { return static_cast<int32_t>(random() % 24); };
    table.add(symbol(), symbol(), {i, symbol()});
  }
  for (int round = 0; round < 200; ++round) {
    std::vector<int32_t> word(1 + random() % 64);
    for (int32_t& symbol : word) symbol = static_cast<int32_t>(random() % 24);
    // 99 has no rule: the halves are independent.
    std::vector<int32_t> twice = word;
    twice.push_back(99);
    twice.insert(twice.end(), word.begin(), word.end());
    twice.resize(2 * word.size() + 64, 99);
    table.apply(word);
    table.apply(twice);
    std::vector<int32_t> expected = word;
    expected.push_back(99);
    expected.insert(expected.end(), word.begin(), word.end());
    twice.resize(expected.size());
    EXPECT_EQ(twice, expected);
  }
}

TEST(MergesTest, TheLastRuleOfAPairCounts) {
  MergeTable table(3);
  table.add(0, 1, {0, 2});
  table.add(1, 1, {1, 4});
  table.add(0, 1, {2, 2});
  std::vector<int32_t> word = {0, 1, 1, 0, 1};
  table.apply(word);
  EXPECT_EQ(word, (std::vector<int32_t>{0, 4, 2}));
}

TEST(LossyTextTest, EachBrokenRunIsOneReplacement) {
  EXPECT_EQ(lossy_utf8("a\xe2\x82"), "a\ufffd");
  EXPECT_EQ(lossy_utf8("\xf0\x9f\x98z"), "\ufffdz");
  EXPECT_EQ(lossy_utf8("\xed\xa0\x80"), "\ufffd\ufffd\ufffd");  // a surrogate
  EXPECT_EQ(lossy_utf8("\xff\xc3"), "\ufffd\ufffd");
  EXPECT_EQ(lossy_utf8("\xe4\xbd\xa0"), "\u4f60");
}

}  // namespace
}  // namespace accel::pattern_test
