#include "core/recipe/confusables.h"

#include <gtest/gtest.h>

#include "tests/unit/core/recipe_text.h"

namespace accel::confusables_test {
namespace {

/// The hint for a problem at this place of a text, which had one of its own or none.
std::string hint_at(const std::string& text, int line, int column, std::string hint = "",
                    Source::Kind kind = Source::Kind::kFile) {
  explain_odd_characters(
      {std::make_shared<const Source>(Source{"r.yaml", text, kind, 0}), line, column}, hint);
  return hint;
}

TEST(OddCharactersTest, TheOneInTheValueIsNamed) {
  EXPECT_EQ(hint_at("a: 1\nb: 1\xc2\xa0", 2, 4),
            "line 2, column 5 has a no-break space (U+00A0): write a plain blank");
  EXPECT_EQ(hint_at("a: \xef\xbc\x91\xef\xbc\x96", 1, 4),
            "line 1, column 4 has a full-width '\xef\xbc\x91' (U+FF11): write '1'");
  EXPECT_EQ(hint_at("a: \xe2\x80\x9cno\xe2\x80\x9d", 1, 4, "did you mean 'no'?"),
            "line 1, column 4 has a typographic quote (U+201C): write '\"'");
  EXPECT_EQ(hint_at("a: '\xe2\x88\x92"
                    "1'",
                    1, 4),
            "line 1, column 5 has a minus sign (U+2212): write '-'");
  EXPECT_EQ(hint_at("a: \xe2\x80\x87"
                    "1",
                    1, 4),
            "line 1, column 4 has a typographic space (U+2007): write a plain blank");
  EXPECT_EQ(hint_at("\xef\xbb\xbf"
                    "a: 1",
                    1, 1),
            "line 1, column 1 has a byte order mark (U+FEFF): write nothing");
}

TEST(OddCharactersTest, WhatIsElsewhereIsNotBlamed) {
  EXPECT_EQ(hint_at("{a: 1, b: \xc2\xa0}", 1, 5), "") << "another value";
  EXPECT_EQ(hint_at("a: 1 # \xe2\x80\x94", 1, 4), "") << "a comment";
  EXPECT_EQ(hint_at("a\xc2\xa0: 1", 1, 7), "") << "its key";
  EXPECT_EQ(hint_at("a: \xc3\xa9\xe6\xbc\xa2", 1, 4), "") << "letters";
  EXPECT_EQ(hint_at("a: 1\xc2\xa0", 1, 4, "add 'b'"), "add 'b'") << "a hint that knows better";
  EXPECT_EQ(hint_at("a: 1", 0, 0), "");
}

TEST(OddCharactersTest, OfAnArgumentAllIsLookedAt) {
  EXPECT_EQ(hint_at("a.b=1\xc2\xa0", 1, 1, "", Source::Kind::kArgument),
            "column 6 has a no-break space (U+00A0): write a plain blank");
}

/// The hint in what a recipe that cannot be parsed is refused with.
std::string refused(const std::string& text) {
  try {
    parse_recipe("r.yaml", text);
  } catch (const RecipeError& error) {
    return error.diagnostics().front().hint;
  }
  return "it is read";
}

TEST(OddCharactersTest, ALayoutThatCannotBeReadIsExplainedByTheLineBeforeToo) {
  EXPECT_EQ(refused("a\xef\xbc\x9a 1\nb: 2\n"),
            "line 1, column 2 has a full-width '\xef\xbc\x9a' (U+FF1A): write ':'");
  EXPECT_EQ(refused("x: 1\na: {b:\xe3\x80\x80{c: 1}}\n"),
            "line 2, column 7 has an ideographic space (U+3000): write a plain blank");
  EXPECT_EQ(refused("a: '\xc2\xa0' # \xe2\x80\x94\nb: {c: [1}\n").find("U+"), std::string::npos)
      << "texts and comments may hold what they like";
  EXPECT_EQ(refused("a\xef\xbc\x9a b\n\nc: {d: [1}\n").find("U+"), std::string::npos);
}

}  // namespace
}  // namespace accel::confusables_test
