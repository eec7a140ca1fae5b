#include <gtest/gtest.h>

#include "core/recipe/node.h"
#include "tests/unit/core/recipe_text.h"

namespace accel::parse_yaml_test {
namespace {

std::string place(const Span& where) {
  return std::to_string(where.line) + ':' + std::to_string(where.column);
}

TEST(ParseYamlTest, ScalarsKeepTheirWordsAndTheirQuotes) {
  EXPECT_EQ(parsed("a: 1e-3\nb: 'no'\nc: \"x\"\nd: 010\ne: |\n  text\nf: ~\ng:\nh: null\n"),
            "{a: 1e-3, b: 'no', c: 'x', d: 010, e: 'text\n', f: ~, g: ~, h: ~}");
  EXPECT_EQ(parsed("{a: [1, 'two', {b: c}], d: {}, e: []}"),
            "{a: [1, 'two', {b: c}], d: {}, e: []}");
}

TEST(ParseYamlTest, MoreByteOrderMarksDoNotShiftThePlaces) {
  const std::string marks = "\xef\xbb\xbf\xef\xbb\xbf\xef\xbb\xbf";
  EXPECT_EQ(parsed(marks + "a: \xef\xbb\xbfx\n"), "{a: \xef\xbb\xbfx}");
  EXPECT_TRUE(parse_complaint(marks + "a: 'x\n")
                  .starts_with("r.yaml:1:10: error: the quotes are never closed\n"));
}

TEST(ParseYamlTest, EscapesAreCharacters) {
  EXPECT_EQ(parsed("a: \"\\x41\\u00e9\\U0001F600\\x85\\t\\e\\/\\\"\\\\\"\n"),
            "{a: 'A\xc3\xa9\xf0\x9f\x98\x80\xc2\x85\t\x1b/\"\\'}");
  EXPECT_EQ(parsed("\"\\N\": \"\xc3\xa9\\N\\_\xe6\x97\xa5\\_\\L\\P\"\n"),
            "{\xc2\x85: '\xc3\xa9\xc2\x85\xc2\xa0\xe6\x97\xa5\xc2\xa0\xe2\x80\xa8\xe2\x80\xa9'}");
}

TEST(ParseYamlTest, EveryKeyAndValueHasItsPlace) {
  const Node root = parse_recipe("r.yaml",
                                 "model:\n"
                                 "  type: mlp\n"
                                 "  hidden: [64, 'ä', 3]\n"
                                 "empty:\n"
                                 "last: x\n");
  EXPECT_EQ(place(root.where), "1:1");
  const Node::Entry* model = root.find("model");
  EXPECT_EQ(place(model->where), "1:1");
  EXPECT_EQ(place(model->node.where), "2:3");
  EXPECT_EQ(place(model->node.find("hidden")->where), "3:3");
  const Node& hidden = model->node.find("hidden")->node;
  EXPECT_EQ(place(hidden.where), "3:11");
  EXPECT_EQ(place(hidden.list()->at(1).where), "3:16");
  EXPECT_EQ(place(hidden.list()->at(2).where), "3:22") << "columns count bytes";
  EXPECT_EQ(place(root.find("empty")->node.where), "4:1") << "a value left out is at its key";
  EXPECT_EQ(root.where.source->path, "r.yaml");
}

TEST(ParseYamlTest, AliasesRepeatWhatTheyNameWithItsPlace) {
  const Node root = parse_recipe("r.yaml", "a: &x [1, 2]\nb: *x\n");
  EXPECT_EQ(outline(root), "{a: [1, 2], b: [1, 2]}");
  EXPECT_EQ(place(root.find("b")->node.where), "1:4");
}

TEST(ParseYamlTest, AByteOrderMarkAndWindowsLineEndsAreNoMatter) {
  EXPECT_EQ(parsed("\xef\xbb\xbf"
                   "a: 1\r\nb: 2\r\n"),
            "{a: 1, b: 2}");
  EXPECT_EQ(parsed("# nothing but a comment\n"), "~");
  EXPECT_EQ(parsed("---\na: 1\n...\n"), "{a: 1}");
}

struct BadYaml {
  const char* text;
  const char* complaint;
};

TEST(ParseYamlTest, WhatIsNotPartOfARecipeIsRefusedInItsPlace) {
  const BadYaml cases[] = {
      {"a: 1\nb: 2\na: 3\n",
       "r.yaml:3:1: error: 'a' is given twice\n    a: 3\n    ^\n"
       "  hint: it is first given on line 1\n"},
      {"a: !!int 5\n",
       "r.yaml:1:4: error: tags such as '!!int' are not part of a recipe\n    a: !!int 5\n       "
       "^\n"
       "  hint: leave the tag out: each option knows its type\n"},
      {"a: !mine {b: 1}\n",
       "r.yaml:1:4: error: tags such as '!!int' are not part of a recipe\n"
       "    a: !mine {b: 1}\n       ^\n"
       "  hint: leave the tag out: each option knows its type\n"},
      {"x: &x {a: 1}\ny:\n  <<: *x\n",
       "r.yaml:3:3: error: merge keys ('<<') are not part of a recipe\n      <<: *x\n      ^\n"
       "  hint: write the keys out, or put them in a file and 'include' it\n"},
      {"a: &x [1, *x]\n",
       "r.yaml:1:11: error: the alias stands inside what it refers to\n    a: &x [1, *x]\n"
       "              ^\n"},
      {"a: 1\n---\nb: 2\n",
       "r.yaml:2:1: error: a recipe is one document, not several\n    ---\n    ^\n"},
      {"[1, 2]: x\n",
       "r.yaml:1:1: error: a key must be a text, not a list\n    [1, 2]: x\n    ^\n"},
      {"? {a: 1}\n: x\n",
       "r.yaml:1:3: error: a key must be a text, not a section\n    ? {a: 1}\n      ^\n"},
      {"~: x\n", "r.yaml:1:1: error: a key must be a text, not nothing\n    ~: x\n    ^\n"},
      {"'': x\n", "r.yaml:1:1: error: a key must be a text, not empty\n    '': x\n    ^\n"},
  };
  for (const BadYaml& c : cases) EXPECT_EQ(parse_complaint(c.text), c.complaint) << c.text;
}

constexpr BadYaml kBadSyntax[] = {
    {"a: b: c\n",
     "r.yaml:1:5: error: a ':' does not belong here\n"
     "    a: b: c\n"
     "        ^\n"
     "  hint: check the indentation; a text with ': ' in it needs quotes\n"},
    {"a: [1, 2\nb: 3\n",
     "r.yaml:1:4: error: a '[' is never closed\n"
     "    a: [1, 2\n"
     "       ^\n"
     "  hint: add the missing ']' or ','\n"},
    {"a: {x: 1\n",
     "r.yaml:1:4: error: a '{' is never closed\n"
     "    a: {x: 1\n"
     "       ^\n"
     "  hint: add the missing '}' or ','\n"},
    {"a: 'open\n",
     "r.yaml:1:4: error: the quotes are never closed\n"
     "    a: 'open\n"
     "       ^\n"
     "  hint: add the missing quote\n"},
    {"a: 1\n b: 2\n",
     "r.yaml:2:3: error: a ':' does not belong here\n"
     "     b: 2\n"
     "      ^\n"
     "  hint: check the indentation; a text with ': ' in it needs quotes\n"},
    {"a:\n\tb: 1\n",
     "r.yaml:2:1: error: a tab indents this line\n"
     "    \tb: 1\n"
     "    ^\n"
     "  hint: indent with spaces\n"},
    {"a: @x\n",
     "r.yaml:1:4: error: a text cannot start with this character\n"
     "    a: @x\n"
     "       ^\n"
     "  hint: put the text in quotes\n"},
    {"a: *.bias\n",
     "r.yaml:1:4: error: no anchor has the name of this alias\n"
     "    a: *.bias\n"
     "       ^\n"
     "  hint: a text that starts with '*' needs quotes\n"},
    {"a: & x\n",
     "r.yaml:1:5: error: a '&' starts an anchor, and no name follows\n"
     "    a: & x\n"
     "        ^\n"
     "  hint: a text that starts with '&' needs quotes\n"},
    {"a: \"\\q\"\n",
     "r.yaml:1:7: error: the escape after '\\' is not one of YAML's\n"
     "    a: \"\\q\"\n"
     "          ^\n"
     "  hint: use single quotes to keep every '\\'\n"},
    {"a: 1\nb\nc: [\n",
     "r.yaml:3:2: error: a ':' does not belong here\n"
     "    c: [\n"
     "     ^\n"
     "  hint: check the indentation; a text with ': ' in it needs quotes\n"},
    {"a: 1\nb\n",
     "r.yaml:2:1: error: 'b' has no value\n"
     "    b\n"
     "    ^\n"
     "  hint: write 'b: value'\n"},
    {"a: {b: 1, c}\n",
     "r.yaml:1:11: error: 'c' has no value\n"
     "    a: {b: 1, c}\n"
     "              ^\n"
     "  hint: write 'c: value'\n"},
    {"- a\nb: 1\n",
     "r.yaml:2:1: error: nothing can follow here\n"
     "    b: 1\n"
     "    ^\n"
     "  hint: check the indentation, the quotes and the brackets\n"},
    {"a: {path: ${vars.x}/y}\n",
     "r.yaml:1:11: error: a text with '${...}' needs quotes inside brackets\n"
     "    a: {path: ${vars.x}/y}\n"
     "              ^\n"
     "  hint: put the text in quotes\n"},
    {"a: ]\n",
     "r.yaml:1:4: error: a closing bracket has no opening one\n"
     "    a: ]\n"
     "       ^\n"},
    {"a: 1\n- b\n",
     "r.yaml:2:1: error: this does not continue the section\n"
     "    - b\n"
     "    ^\n"
     "  hint: check the indentation, the quotes and the brackets\n"},
    {"a:\n  - b\n  c: 1\n",
     "r.yaml:3:3: error: this does not continue the section\n"
     "      c: 1\n"
     "      ^\n"
     "  hint: check the indentation, the quotes and the brackets\n"},
    {"a: - b\n",
     "r.yaml:1:4: error: a '-' does not belong here\n"
     "    a: - b\n"
     "       ^\n"
     "  hint: a list starts on a line of its own\n"},
    {"a: \"x\n---\n",
     "r.yaml:2:1: error: the quotes are never closed\n"
     "    ---\n"
     "    ^\n"
     "  hint: add the missing quote\n"},
    {"%YAML 3.0\n---\na: 1\n",
     "r.yaml:1:1: error: not YAML: YAML major version too large\n"
     "    %YAML 3.0\n"
     "    ^\n"},
};

TEST(ParseYamlTest, SyntaxErrorsSayWhatToDo) {
  for (const BadYaml& c : kBadSyntax) EXPECT_EQ(parse_complaint(c.text), c.complaint) << c.text;
}

TEST(ParseYamlTest, SeveralMistakesAreReportedTogether) {
  EXPECT_EQ(parse_complaint("a: !!int 1\na: 2\nb: [\n"),
            "r.yaml:1:4: error: tags such as '!!int' are not part of a recipe\n"
            "    a: !!int 1\n"
            "       ^\n"
            "  hint: leave the tag out: each option knows its type\n"
            "r.yaml:2:1: error: 'a' is given twice\n"
            "    a: 2\n"
            "    ^\n"
            "  hint: it is first given on line 1\n"
            "r.yaml:3:4: error: a '[' is never closed\n"
            "    b: [\n"
            "       ^\n"
            "  hint: add the missing ']' or ','\n");
}

TEST(ParseYamlTest, LimitsHoldAfterAliasesAreExpanded) {
  EXPECT_EQ(parse_complaint(std::string(262'145, ' ')),
            "r.yaml: error: the recipe has 262145 bytes, more than the limit of 262144\n");
  const std::string deep = "a: " + std::string(64, '[') + std::string(64, ']') + "\n";
  EXPECT_TRUE(parse_complaint(deep).starts_with(
      "r.yaml:1:67: error: the recipe is nested more than 64 deep\n"));
  const std::string fits = "a: " + std::string(63, '[') + std::string(63, ']') + "\n";
  EXPECT_EQ(parse_complaint(fits), "");
  std::string bomb = "a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string last = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + last;
    for (int k = 0; k < 8; ++k) bomb += ", " + last;
    bomb += "]\n";
  }
  EXPECT_NE(parse_complaint(bomb).find("error: the recipe has more than 10000 values"),
            std::string::npos);
  std::string tower = "a0: &a0 x\n";
  for (int i = 1; i < 70; ++i) {
    tower += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [*a" + std::to_string(i - 1) +
             "]\n";
  }
  EXPECT_NE(parse_complaint(tower).find("error: the recipe is nested more than 64 deep"),
            std::string::npos);
}

TEST(ParseYamlTest, KeysAreNoValuesButTheirTextCounts) {
  std::string wide;
  for (int i = 1; i < 10'000; ++i) wide += "k" + std::to_string(i) + ": 1\n";
  EXPECT_EQ(parse_complaint(wide), "");
  EXPECT_NE(parse_complaint(wide + "k: 1\n")
                .find("r.yaml:10000:4: error: the recipe has more than 10000"),
            std::string::npos);
  const std::string text(1024, 't');
  std::string copies;
  for (int i = 1; i < 1024; ++i) copies += i % 2 ? "- *x\n" : "- {*x : ~}\n";
  EXPECT_EQ(parse_complaint("- &x " + text + '\n' + copies), "");
  EXPECT_TRUE(parse_complaint("- &x " + text + '\n' + copies + "- k\n")
                  .starts_with("r.yaml:1025:3: error: aliases make the recipe too large\n"));
}

TEST(ParseYamlTest, BytesThatAreNoTextAreRefusedWhereTheyAre) {
  EXPECT_EQ(parse_complaint("a: 1\nb: \xff\n"),
            "r.yaml:2:4: error: the recipe is not UTF-8\n    b: \\xff\n       ^\n"
            "  hint: save it as UTF-8\n");
  EXPECT_EQ(parse_complaint("a: \x1b[2J\n"),
            "r.yaml:1:4: error: the recipe has a control character\n    a: \\x1b[2J\n       ^\n");
  EXPECT_NE(parse_complaint(std::string("a\0: \0 1\0", 8)), "") << "UTF-16";
}

}  // namespace
}  // namespace accel::parse_yaml_test
