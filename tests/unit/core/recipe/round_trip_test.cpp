// Trees of awkward texts: whatever a recipe can hold, to_yaml writes it so that it reads back.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "tests/unit/core/recipe_text.h"
#include "tests/unit/core/same_tree.h"

namespace accel::round_trip_test {
namespace {

/// Pieces that mean something to YAML, to its reader or to a terminal, and plain ones.
const std::vector<std::string>& pieces() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out = {
        "null",   "~",      "true",       "1",         "-.5",    "+.5", "1e-3",   "---",
        "...",    "- ",     "? ",         ": ",        " #",     "#",   ":",      ",",
        "'",      "''",     "\"",         "\\",        "\\x",    "\\n", "[",      "]",
        "{",      "}",      "&a",         "*a",        "!a",     "|",   ">",      "%",
        "@",      "`",      "<<",         "=",         " ",      "  ",  "\r\n",   "\n\n",
        "\n ",    "${a}",   "$${a}",      "word",      "x y",    ".",   "-",      "+",
        "_",      "/",      "\u00a0",     "\u00e9",    "\u1680", "日",  "\u2028", "\u2029",
        "\ufeff", "\ufffe", "\U0001F600", "\U0010FFFF"};
    for (char c = 0; c < 0x20; ++c) out.emplace_back(1, c);
    out.emplace_back("\x7f");
    for (unsigned c = 0x80; c < 0xa0; ++c) out.push_back({'\xc2', static_cast<char>(c)});
    return out;
  }();
  return all;
}

/// Trees by chance, the same ones in every run.
class Trees {
 public:
  Node tree(int depth) {
    const uint32_t kind = depth == 0 ? below(2) : below(4);
    if (kind == 0 && below(3) == 0) return {};
    if (kind <= 1) return scalar_node(text(), below(2) == 0);
    const uint32_t count = below(4);
    if (kind == 2) {
      Node::List list;
      for (uint32_t i = 0; i < count; ++i) list.push_back(tree(depth - 1));
      return {std::move(list), {}};
    }
    Node::Map map;
    for (uint32_t i = 0; i < count; ++i) {
      std::string key = text();
      const auto same = [&](const Node::Entry& entry) { return entry.key == key; };
      if (key.empty() || std::any_of(map.begin(), map.end(), same)) continue;
      map.push_back({std::move(key), {}, tree(depth - 1)});
    }
    return {std::move(map), {}};
  }

  std::string text() {
    std::string out;
    const uint32_t count = below(4);
    for (uint32_t i = 0; i < count; ++i) out += pieces()[below(pieces().size())];
    if (below(64) == 0) {
      const std::string once = out;
      for (uint32_t i = below(1100); i > 0; --i) out += once;
    }
    return out;
  }

 private:
  uint32_t below(size_t limit) { return static_cast<uint32_t>(random_() % limit); }

  std::mt19937 random_{1};
};

TEST(RoundTripTest, TreesOfAwkwardTextsReadBackEqual) {
  constexpr int kTrees = 100'000;
  constexpr int kDepth = 4;
  Trees trees;
  for (int i = 0; i < kTrees; ++i) {
    const Node tree = trees.tree(kDepth);
    const std::string comment = trees.text();
    const std::string written = to_yaml(tree, [&](const Node&) { return comment; });
    ASSERT_EQ(read_back_difference(tree, written), "") << "tree " << i << ":\n" << written;
  }
}

TEST(RoundTripTest, WhatTomlTakesAtItsLimitsReadsBackEqual) {
  std::string wide = "a = [";
  for (int i = 0; i < 4997; ++i) wide += "1,";
  wide += "]\n";
  for (int i = 0; i < 5001; ++i) wide += "k" + std::to_string(i) + " = 1\n";
  std::string deep;
  for (int i = 0; i < 60; ++i) deep += (i > 0 ? ".k" : "[k") + std::to_string(i);
  deep += "]\na = [[[]]]\n";
  const std::string texts = "a = \"\\u0085\\u00a0\\r\\u2028\" # \n\"'\\n\" = '\"\\n'\n";
  for (const std::string& text : {wide, deep, texts}) {
    const Node tree = parse_recipe("r.toml", text);
    EXPECT_EQ(read_back_difference(tree, to_yaml(tree)), "") << text.substr(0, 200);
  }
  EXPECT_NE(parse_complaint(wide + "one_more = 1\n", "r.toml"), "");
  deep.replace(deep.rfind("[]"), 2, "[[]]");
  EXPECT_NE(parse_complaint(deep, "r.toml"), "");
}

}  // namespace
}  // namespace accel::round_trip_test
