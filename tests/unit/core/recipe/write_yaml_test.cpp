#include <gtest/gtest.h>

#include "core/recipe/node.h"
#include "tests/unit/core/recipe_text.h"

namespace accel::write_yaml_test {
namespace {

TEST(WriteYamlTest, SectionsAreBlocksAndShortListsStandOnOneLine) {
  const Node recipe = parse_recipe(
      "r.yaml",
      "{model: {type: mlp, hidden_sizes: [64, 64]}, callbacks: [{type: ema, decay: 0.999}, early], "
      "none: ~, empty: {}, list: [], deep: [[1, 2], [[3]], {}], 'odd key': 'it''s'}");
  EXPECT_EQ(to_yaml(recipe),
            "model:\n"
            "  type: mlp\n"
            "  hidden_sizes: [64, 64]\n"
            "callbacks:\n"
            "  - type: ema\n"
            "    decay: 0.999\n"
            "  - early\n"
            "none: ~\n"
            "empty: {}\n"
            "list: []\n"
            "deep:\n"
            "  - [1, 2]\n"
            "  -\n"
            "    - [3]\n"
            "  - {}\n"
            "odd key: 'it''s'\n");
}

TEST(WriteYamlTest, ALongListHasTheCommentOfItsItems) {
  Node recipe =
      parse_recipe("r.yaml", "a: [" + std::string(40, '1') + ", " + std::string(41, '2') + "]");
  const auto line = [](const Node& node) {
    return node.where.source ? "line " + std::to_string(node.where.line) : "default";
  };
  EXPECT_EQ(to_yaml(recipe, line),
            "a:\n"
            "  - " +
                std::string(40, '1') +
                "   # line 1\n"
                "  - " +
                std::string(41, '2') + "  # line 1\n");
  for (Node& item : *recipe.find("a")->node.list()) item.where = {};
  EXPECT_EQ(to_yaml(recipe, line),
            "a:  # line 1\n"
            "  - " +
                std::string(40, '1') +
                "\n"
                "  - " +
                std::string(41, '2') + "\n");
}

TEST(WriteYamlTest, WhatIsWrittenReadsBackEqual) {
  const char* recipes[] = {
      "{a: ['1', 2, '~', '', 'null', 'x: y', 'a # b', '- c', '*d', '&e', '!f', '{g}', '@h']}",
      "{a: {b: [{c: [{d: ~}]}, {e: []}]}}",
      "{a: \"line\\nbreak\\ttab \\x1b \\\"q\\\" \\\\ \\u00e9\\u65e5\"}",
      "{a: \"\\N \\x7f \\x80\\x9f\\xa0 \\L\\P\", \"\\x85\": [\"\\0\"]}",
      "{a: -1e-3, b: .5, c: 500 steps, d: 5%, e: eval/loss, f: '>= 0.9', g: '${vars.x}'}",
      "[1, [2, [3]]]",
      "{train.until: 4 steps, callbacks+: c, '~t': true}",
      "just text",
      "~",
  };
  for (const char* text : recipes) {
    const Node recipe = parse_recipe("r.yaml", text);
    EXPECT_EQ(parsed(to_yaml(recipe)), outline(recipe)) << to_yaml(recipe);
  }
  std::string list = "a: [";
  for (int i = 0; i < 60; ++i) list += std::to_string(i) + ", ";
  const Node longer = parse_recipe("r.yaml", list + "60]\n");
  EXPECT_EQ(parsed(to_yaml(longer)), outline(longer)) << "too long for one line";
}

TEST(WriteYamlTest, PlainTextThatYamlWouldMisreadIsQuoted) {
  for (const char* text :
       {"", "~", "null", "a: b", "a #b", "x:", "- a", "[a", "a\nb", "*a", " a", "a "}) {
    const Node node{Node::Map{{"k", {}, scalar_node(text)}}, {}};
    EXPECT_EQ(parse_recipe("r.yaml", to_yaml(node)).find("k")->node.scalar()->text, text);
  }
}

TEST(WriteYamlTest, NumbersStayNumbers) {
  for (const char* text : {"-.5", "+.5", ".5", "-5", "+5", "5.", "1e-3", "-1_000", "true"}) {
    EXPECT_EQ(to_yaml(Node{Node::List{scalar_node(text)}, {}}), '[' + std::string(text) + "]\n");
  }
}

TEST(WriteYamlTest, KeysTooLongToStandAloneReadBackEqual) {
  for (const size_t size : {1021, 1022, 1023, 1024, 1025, 4000}) {
    for (const std::string letter : {"k", "'", "\xc3\xa9", "\r"}) {
      std::string key;
      while (key.size() < size) key += letter;
      const Node inner{Node::Map{{key, {}, scalar_node("1")}, {"b", {}, {}}}, {}};
      const Node recipe{Node::Map{{"a", {}, {Node::List{inner, inner}, {}}}, {key, {}, inner}}, {}};
      EXPECT_EQ(parsed(to_yaml(recipe)), outline(recipe)) << size << letter;
    }
  }
}

TEST(WriteYamlTest, CommentsStandInOneColumnBehindTheValues) {
  const Node recipe = parse_recipe("r.yaml", "seed: 1\ntrain:\n  batch: 32\n  until: 3 epochs\n");
  const auto comment = [](const Node& node) {
    return node.where.line == 3 ? "" : "line " + std::to_string(node.where.line);
  };
  EXPECT_EQ(to_yaml(recipe, comment),
            "seed: 1            # line 1\n"
            "train:\n"
            "  batch: 32\n"
            "  until: 3 epochs  # line 4\n");
}

}  // namespace
}  // namespace accel::write_yaml_test
