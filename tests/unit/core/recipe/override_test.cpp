#include "core/recipe/override.h"

#include <gtest/gtest.h>

#include "tests/unit/core/recipe_text.h"

namespace accel::override_test {
namespace {

/// The recipe after the arguments, numbered from 2 as on a command line, or the complaint.
std::string overridden(const std::string& recipe, const std::vector<std::string>& arguments) {
  Node out = parse_recipe("r.yaml", recipe);
  const std::string problems = complaint([&](Diagnostics& diagnostics) {
    History history;
    Merging merging{history, diagnostics};
    std::vector<Override> changes;
    int number = 2;
    for (const std::string& argument : arguments) {
      changes.push_back(parse_override(argument, number++, diagnostics));
    }
    apply_overrides(out, std::move(changes), merging);
  });
  return problems.empty() ? outline(out) : problems;
}

struct OverrideCase {
  const char* recipe;
  std::vector<std::string> arguments;
  const char* result;
};

TEST(OverrideTest, ArgumentsChangeOneKeyEach) {
  const OverrideCase cases[] = {
      {"o: {type: sgd, lr: 1}", {"o.lr=3e-4"}, "{o: {type: sgd, lr: 3e-4}}"},
      {"a: 1", {"b.c.d=x"}, "{a: 1, b: {c: {d: x}}}"},
      {"a: 1", {"a='x=y'"}, "{a: 'x=y'}"},
      {"a: 1", {"a=x=y"}, "{a: x=y}"},
      {"a: 1", {"a="}, "{a: ~}"},
      {"a: 1", {"a=[1, {b: 2}]"}, "{a: [1, {b: 2}]}"},
      {"c: [{type: ema, decay: 1}]", {"c.0.decay=2"}, "{c: [{type: ema, decay: 2}]}"},
      {"c: [[1, 2], [3]]", {"c.0.1=9"}, "{c: [[1, 9], [3]]}"},
      {"c: [a]", {"c+={type: ema}"}, "{c: [a, {type: ema}]}"},
      {"c: [a]", {"c+=[b, c]"}, "{c: [a, b, c]}"},
      {"d: {x: 1}", {"d!={y: 2}"}, "{d: {y: 2}}"},
      {"d: {e: {x: 1}}", {"d.e!={y: 2}"}, "{d: {e: {y: 2}}}"},
      {"d: {e: {x: 1}}", {"d.e={}"}, "{d: {e: {}}}"},
      {"d: {x: 1}", {"d={}"}, "{d: {}}"},
      {"d: [{x: 1}]", {"d.0={}"}, "{d: [{}]}"},
      {"d: {x: 1}", {"~d"}, "{d: ~}"},
      {"d: {x: {y: 1}}", {"~d.x"}, "{d: {x: ~}}"},
      {"o: {type: adamw, eps: 1}", {"o=sgd"}, "{o: {type: sgd}}"},
      {"o: {type: adamw, eps: 1}", {"o.lr=2", "o.type=sgd"}, "{o: {type: sgd, lr: 2}}"},
      {"o: {type: adamw, eps: 1}", {"o.lr=2", "o=sgd"}, "{o: {type: sgd, lr: 2}}"},
      {"c: [a]", {"c.1.x=2", "c+={type: b}"}, "{c: [a, {type: b, x: 2}]}"},
      {"a: 1", {"a=2", "a=3"}, "{a: 3}"},
      {"m: mlp", {"m.hidden_sizes=[3]"}, "{m: {type: mlp, hidden_sizes: [3]}}"},
      {"e: {eval/loss: 1}", {"e.eval/loss='< 2'"}, "{e: {eval/loss: '< 2'}}"},
      {"{1: a}", {"1=b"}, "{1: b}"},
  };
  for (const OverrideCase& c : cases) {
    EXPECT_EQ(overridden(c.recipe, c.arguments), c.result) << c.arguments[0];
  }
}

TEST(OverrideTest, AValueIsNoDirectiveAndNoMarkOfADocument) {
  for (const char* value : {"%x", "...", "--- b"}) {
    const std::string argument = std::string("a=") + value;
    EXPECT_EQ(overridden("a: 1", {argument}),
              "argument 2: error: a text cannot start with this character\n    " + argument +
                  "\n      ^\n  hint: put the text in quotes\n");
  }
  EXPECT_EQ(overridden("a: 1", {"a=...b"}), "{a: ...b}");
}

TEST(OverrideTest, WhatIsWrongIsShownInTheArgument) {
  const OverrideCase cases[] = {
      {"a: 1",
       {"a=1", "lr"},
       "argument 3: error: 'lr' is not an override\n    lr\n    ^\n"
       "  hint: write 'section.option=value', or '~section' to remove it\n"},
      {"a: 1",
       {"=5"},
       "argument 2: error: '=5' is not an override\n    =5\n    ^\n"
       "  hint: write 'section.option=value', or '~section' to remove it\n"},
      {"a: 1",
       {"a..b=5"},
       "argument 2: error: 'a..b' is not the name of an option\n    a..b=5\n    ^\n"
       "  hint: write 'section.option=value'\n"},
      {"a: 1",
       {"~a=5"},
       "argument 2: error: '~' removes a section and takes no value\n    ~a=5\n    ^\n"
       "  hint: write '~a'\n"},
      {"a: 1", {"~a+"}, "argument 2: error: '~' and '+' exclude each other\n    ~a+\n    ^\n"},
      {"a: 1",
       {"a=[1, 2"},
       "argument 2: error: a '[' is never closed\n    a=[1, 2\n      ^\n"
       "  hint: add the missing ']' or ','\n"},
      {"a: 1",
       {"g=*.bias"},
       "argument 2: error: no anchor has the name of this alias\n    g=*.bias\n      ^\n"
       "  hint: a text that starts with '*' needs quotes\n"},
      {"c: [a, b]",
       {"c.2.x=1"},
       "argument 2: error: 'c' has 2 items, and no item 2\n    c.2.x=1\n    ^\n"
       "  hint: items count from 0 to 1\n"},
      {"c: [a]",
       {"c.99999999999999999999=1"},
       "argument 2: error: 'c' has 1 item, and no item 99999999999999999999\n"
       "    c.99999999999999999999=1\n    ^\n  hint: items count from 0 to 0\n"},
      {"c: []",
       {"c.0=1"},
       "argument 2: error: 'c' has 0 items, and no item 0\n    c.0=1\n    ^\n"
       "  hint: write 'c+=...' to add one\n"},
      {"d: {t: [{path: x}]}",
       {"d.t.path=y"},
       "argument 2: error: 'd.t' is a list, so 'path' must be a number\n    d.t.path=y\n    ^\n"
       "  hint: write 'd.t.0.path' for its first item\n"},
      {"c: [a]",
       {"c.0+=1"},
       "argument 2: error: 'c.0+' marks an item of a list\n    c.0+=1\n    ^\n"
       "  hint: write 'c.0=...'\n"},
      {"a: 1", {"a=\xff"}, "argument 2: error: the argument is not UTF-8\n    a=\\xff\n      ^\n"},
  };
  for (const OverrideCase& c : cases) {
    EXPECT_EQ(overridden(c.recipe, c.arguments), c.result) << c.arguments[0];
  }
}

TEST(OverrideTest, ASmokeSectionHoldsTheSameWords) {
  Node recipe = parse_recipe("r.yaml",
                             "train: {until: 3 epochs}\ncallbacks: [a]\ntrackers: [b]\n"
                             "smoke: {train.until: 4 steps, callbacks+: c, '~trackers': true}\n");
  Diagnostics problems;
  History history;
  Merging merging{history, problems};
  apply_overrides(recipe, overrides_of(Node(recipe.find("smoke")->node), problems), merging);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(outline(recipe),
            "{train: {until: 4 steps}, callbacks: [a, c], trackers: ~, "
            "smoke: {train.until: 4 steps, callbacks+: c, ~trackers: true}}");
  EXPECT_EQ(complaint([](Diagnostics& d) { overrides_of(parse_recipe("r.yaml", "[1]"), d); }),
            "r.yaml:1:1: error: 'smoke' wants a section, not a list\n    [1]\n    ^\n");
}

}  // namespace
}  // namespace accel::override_test
