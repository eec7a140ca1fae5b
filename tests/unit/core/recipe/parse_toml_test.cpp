#include <gtest/gtest.h>

#include "core/recipe/node.h"
#include "tests/unit/core/recipe_text.h"

namespace accel::parse_toml_test {
namespace {

TEST(ParseTomlTest, NumbersAndSwitchesKeepTheirWordsAndTextsAreQuoted) {
  EXPECT_EQ(
      parsed("seed = 1_000\n"
             "[optimizer]\n"
             "type = \"adamw\"\n"
             "lr = 1e-3 # small\n"
             "betas = [0.9, 0.999]\n"
             "amsgrad = true\n"
             "[train]\n"
             "until = '3 epochs'\n"
             "hex = 0x10\n"
             "whole = 5.0\n",
             "r.toml"),
      "{seed: 1_000, optimizer: {type: 'adamw', lr: 1e-3, betas: [0.9, 0.999], amsgrad: true}, "
      "train: {until: '3 epochs', hex: 0x10, whole: 5.0}}");
}

TEST(ParseTomlTest, KeysKeepTheOrderTheyWereWrittenIn) {
  EXPECT_EQ(parsed("z = 1\na = 2\n[m.y]\nb = 1\n[m.a]\nc = 2\n[[list]]\nk = 1\n[[list]]\nk = 2\n",
                   "r.toml"),
            "{z: 1, a: 2, m: {y: {b: 1}, a: {c: 2}}, list: [{k: 1}, {k: 2}]}");
}

TEST(ParseTomlTest, PlacesCountBytesAsInYaml) {
  const Node root = parse_recipe("r.toml", "[data]\nname = [\"\xc3\xa9\", 7]\n");
  const Node::Entry* name = root.find("data")->node.find("name");
  EXPECT_EQ(name->where.line, 2);
  EXPECT_EQ(name->where.column, 1);
  EXPECT_EQ(name->node.where.column, 8);
  EXPECT_EQ(name->node.list()->at(1).where.column, 15) << "the accent is two bytes";
}

struct BadToml {
  const char* text;
  const char* complaint;
};

constexpr BadToml kBadToml[] = {
    {"a = 1\nb = yes\n",
     "r.toml:2:5: error: this is no TOML value\n"
     "    b = yes\n"
     "        ^\n"
     "  hint: texts need quotes; switches are true and false\n"},
    {"a = 1\na = 2\n",
     "r.toml:2:1: error: 'a' is given twice\n"
     "    a = 2\n"
     "    ^\n"},
    {"[m]\nx = 1\n[m]\n",
     "r.toml:3:2: error: 'm' is given twice\n"
     "    [m]\n"
     "     ^\n"},
    {"a = {b = 1}\na.c = 2\n",
     "r.toml:2:1: error: the section of this key is given twice\n"
     "    a.c = 2\n"
     "    ^\n"
     "  hint: write all its options in one place\n"},
    {"a = {b = 1, b = 2}\n",
     "r.toml:1:13: error: 'b' is given twice\n"
     "    a = {b = 1, b = 2}\n"
     "                ^\n"},
    {"x = 1e999\n",
     "r.toml:1:5: error: a number is too large\n"
     "    x = 1e999\n"
     "        ^\n"
     "  hint: the largest is about 1.8e308\n"},
    {"x = 010\n",
     "r.toml:1:5: error: a number starts with a zero\n"
     "    x = 010\n"
     "        ^\n"
     "  hint: leave the leading zero out\n"},
    {"x = 18446744073709551616\n",
     "r.toml:1:5: error: a number is too large\n"
     "    x = 18446744073709551616\n"
     "        ^\n"
     "  hint: the largest is 9223372036854775807\n"},
    {"x = 1979-05-27\n",
     "r.toml:1:5: error: dates and times are not part of a recipe\n"
     "    x = 1979-05-27\n"
     "        ^\n"
     "  hint: put the text in quotes\n"},
    {"x = 07:32:00\n",
     "r.toml:1:5: error: dates and times are not part of a recipe\n"
     "    x = 07:32:00\n"
     "        ^\n"
     "  hint: put the text in quotes\n"},
    {"a = \"open",
     "r.toml:1:10: error: the quotes are never closed\n"
     "    a = \"open\n"
     "             ^\n"
     "  hint: add the missing quote\n"},
    {"a = [1, 2",
     "r.toml:1:10: error: a '[' is never closed\n"
     "    a = [1, 2\n"
     "             ^\n"
     "  hint: add the missing ']'\n"},
    {"a = {b = 1",
     "r.toml:1:11: error: a '{' is never closed\n"
     "    a = {b = 1\n"
     "              ^\n"
     "  hint: add the missing '}'\n"},
    {"a =\nb = 1\n",
     "r.toml:1:4: error: a value is missing\n"
     "    a =\n"
     "       ^\n"},
    {"[a",
     "r.toml:1:3: error: a '[' is never closed\n"
     "    [a\n"
     "      ^\n"
     "  hint: add the missing ']'\n"},
    {"a b = 1\n",
     "r.toml:1:3: error: not TOML: expected '=', saw 'b', in the key-value pair\n"
     "    a b = 1\n"
     "      ^\n"},
    {"= 1\n",
     "r.toml:1:1: error: not TOML: expected keys, tables, whitespace or comments, saw '=', in "
     "the root table\n"
     "    = 1\n"
     "    ^\n"},
    {"a = \"x\" \"y\"\n",
     "r.toml:1:9: error: not TOML: expected a comment or whitespace, saw '\"', in the key-value "
     "pair\n"
     "    a = \"x\" \"y\"\n"
     "            ^\n"},
};

TEST(ParseTomlTest, MistakesAreWordedAsForYaml) {
  for (const BadToml& c : kBadToml) {
    EXPECT_EQ(parse_complaint(c.text, "r.toml"), c.complaint) << c.text;
  }
}

TEST(ParseTomlTest, LimitsHold) {
  const std::string deep = "a = " + std::string(65, '[') + std::string(65, ']') + "\n";
  EXPECT_NE(parse_complaint(deep, "r.toml").find("error: the recipe is nested more than 64 deep"),
            std::string::npos);
  EXPECT_NE(parse_complaint("a = " + std::string(300, '[') + "\n", "r.toml")
                .find("error: the recipe is nested more than 64 deep"),
            std::string::npos);
  std::string wide = "a = [";
  for (int i = 0; i < 10'001; ++i) wide += "1,";
  EXPECT_NE(parse_complaint(wide + "]\n", "r.toml").find("has more than 10000 values"),
            std::string::npos);
  EXPECT_EQ(parse_complaint("a = \"\xff\"\n", "r.toml"),
            "r.toml:1:6: error: the recipe is not UTF-8\n    a = \"\\xff\"\n         ^\n"
            "  hint: save it as UTF-8\n");
}

TEST(ParseTomlTest, InputThatTripsTheParsersAssertionsIsAnErrorLikeAnyOther) {
  EXPECT_NE(parse_complaint("d = [1,2,}3]\n", "r.toml"), "");
  EXPECT_NE(parse_complaint("f = 1979-05-27Tp7:32:00Z\n", "r.toml"), "");
  EXPECT_EQ(parse_complaint("a = 1\n\xcf\xa2 = 2\n", "r.toml"),
            "r.toml:2:1: error: '\xcf\xa2' does not belong here\n    \xcf\xa2 = 2\n    ^\n"
            "  hint: put the text in quotes\n");
  EXPECT_NE(parse_complaint("a = 1\xcf\xa2\n", "r.toml"), "");
  EXPECT_NE(parse_complaint("a = 0_0's\xcc\xafw\", 'x' b\n", "r.toml"), "");
}

TEST(ParseTomlTest, CharactersThatStandForOthersInsideAreRefused) {
  constexpr auto kRefusal = "error: recipes in TOML do not take U+F0000 to U+FFFFF";
  for (const char* text : {"a = '\xf3\xb0\x80\x80'\n", "a = \"\\U000F00e9\"\n", "# \\U000f\n"}) {
    EXPECT_NE(parse_complaint(text, "r.toml").find(kRefusal), std::string::npos) << text;
  }
}

TEST(ParseTomlTest, TextsAndCommentsMayHoldAnyCharacter) {
  EXPECT_EQ(parsed("a = '\xcf\xa2' # \xcf\xa2\n"
                   "b = \"\\\"\xcf\xa2\"\n"
                   "c = \"\"\"\n\xcf\xa2\"\"\"\"\n"
                   "d = \"\"\"x\\\n  y \xcf\xa2\"\"\"\n"
                   "e = \"\"\"x\\\n  \xcf\xa2\"\"\"\n"
                   "\"\xcf\xa2\" = ''\n",
                   "r.toml"),
            "{a: '\xcf\xa2', b: '\"\xcf\xa2', c: '\xcf\xa2\"', d: 'xy \xcf\xa2', e: 'x\xcf\xa2', "
            "\xcf\xa2: ''}");
}

}  // namespace
}  // namespace accel::parse_toml_test
