#include "core/recipe/diagnostic.h"

#include <gtest/gtest.h>

#include "tests/unit/core/recipe_text.h"

namespace accel::diagnostic_test {
namespace {

Span at(const std::string& text, int line, int column) {
  return {std::make_shared<const Source>(Source{"r.yaml", text, Source::Kind::kFile, 0}), line,
          column};
}

TEST(DiagnosticTest, TheCaretStandsUnderTheColumnAsShown) {
  EXPECT_EQ(render({at("\xc3\xa9\xc3\xa9: bad\n", 1, 7), "no", ""}),
            "r.yaml:1:7: error: no\n    \xc3\xa9\xc3\xa9: bad\n        ^\n");
  EXPECT_EQ(render({at("\xe6\xbc\xa2: bad\n", 1, 6), "no", ""}),
            "r.yaml:1:6: error: no\n    \xe6\xbc\xa2: bad\n        ^\n")
      << "wide characters take two columns";
  EXPECT_EQ(render({at("a:\t\tbad\n", 1, 5), "no", ""}),
            "r.yaml:1:5: error: no\n    a:\t\tbad\n      \t\t^\n");
  EXPECT_EQ(render({at("a: b\r\n", 1, 99), "no", "try harder"}),
            "r.yaml:1:99: error: no\n    a: b\n        ^\n  hint: try harder\n");
  EXPECT_EQ(render({at("a\n", 9, 1), "no", ""}), "r.yaml:9:1: error: no\n    \n    ^\n");
}

TEST(DiagnosticTest, LongLinesAreCutAroundTheCaret) {
  const std::string line = std::string(200, 'a') + 'X' + std::string(200, 'b');
  EXPECT_EQ(render({at(line, 1, 201), "no", ""}),
            "r.yaml:1:201: error: no\n    ..." + std::string(50, 'a') + 'X' + std::string(49, 'b') +
                "...\n       " + std::string(50, ' ') + "^\n");
  EXPECT_EQ(render({at(line, 1, 1), "no", ""}),
            "r.yaml:1:1: error: no\n    " + std::string(100, 'a') + "...\n    ^\n");
  EXPECT_EQ(render({at(line, 1, 402), "no", ""}), "r.yaml:1:402: error: no\n    ..." +
                                                      std::string(100, 'b') + "\n       " +
                                                      std::string(100, ' ') + "^\n");
}

TEST(DiagnosticTest, NothingInARecipeCanDriveATerminal) {
  EXPECT_EQ(render({at("a: \x1b[2J\n", 1, 4), "not '\x1b[2J'", "no '\x07'"}),
            "r.yaml:1:4: error: not '\\x1b[2J'\n    a: \\x1b[2J\n       ^\n  hint: no '\\x07'\n");
}

TEST(DiagnosticTest, ALineWithThePasswordOfAUrlIsNotShown) {
  for (const char* line : {"path: https://me:pass@host/x", "path: 'https://host/x?signature=1'"}) {
    EXPECT_EQ(render({at(line, 1, 7), "no", ""}), "r.yaml:1:7: error: no\n") << line;
  }
  const std::string plain = "path: https://host/x  # who? me@home";
  EXPECT_EQ(render({at(plain, 1, 7), "no", ""}),
            "r.yaml:1:7: error: no\n    " + plain + "\n          ^\n");
}

TEST(DiagnosticTest, JsonIsOneLineWithTheSameFacts) {
  EXPECT_EQ(render_json({at("a: b\n", 1, 4), "'a' wants \"x\"", "try\nx"}),
            "{\"severity\": \"error\", \"file\": \"r.yaml\", \"line\": 1, \"column\": 4, "
            "\"message\": \"'a' wants \\\"x\\\"\", \"hint\": \"try\\nx\"}\n");
  const auto argument =
      std::make_shared<const Source>(Source{"a=b", "a=b", Source::Kind::kArgument, 3});
  EXPECT_EQ(render_json({{argument, 1, 3}, "no", ""}),
            "{\"severity\": \"error\", \"argument\": 3, \"line\": 1, \"column\": 3, "
            "\"message\": \"no\"}\n");
  EXPECT_EQ(render_json({{}, "no", ""}), "{\"severity\": \"error\", \"message\": \"no\"}\n");
}

TEST(DiagnosticTest, AVariableOfTheEnvironmentIsAPlace) {
  const auto variable =
      std::make_shared<const Source>(Source{"LR", "LR=x", Source::Kind::kEnvironment, 0});
  EXPECT_EQ(render({{variable, 1, 4}, "no", ""}),
            "environment LR: error: no\n    LR=x\n       ^\n");
  EXPECT_EQ(render_json({{variable, 1, 4}, "no", ""}),
            "{\"severity\": \"error\", \"environment\": \"LR\", \"line\": 1, \"column\": 4, "
            "\"message\": \"no\"}\n");
}

TEST(DiagnosticTest, ProblemsAreToldInTheOrderOfTheTextAndOnce) {
  const std::string text = "a\nb\nc\n";
  const Span first = at(text, 1, 1), second{first.source, 2, 1}, third{first.source, 3, 1};
  const auto argument =
      std::make_shared<const Source>(Source{"x=1", "x=1", Source::Kind::kArgument, 2});
  EXPECT_EQ(complaint([&](Diagnostics& problems) {
              problems.error({argument, 1, 1}, "of the argument");
              problems.error(third, "third");
              problems.error(first, "first");
              problems.error(third, "third");
              problems.spoil(second);
              problems.error(second, "what follows from it");
            }),
            "r.yaml:1:1: error: first\n    a\n    ^\n"
            "r.yaml:3:1: error: third\n    c\n    ^\n"
            "argument 2: error: of the argument\n    x=1\n    ^\n");
}

TEST(DiagnosticTest, MoreProblemsThanAnyoneReadsAreCounted) {
  const Span where = at("a\n", 1, 1);
  const std::string all = complaint([&](Diagnostics& problems) {
    for (int i = 0; i < 150; ++i) problems.error({where.source, 1, i + 1}, std::to_string(i));
    EXPECT_TRUE(problems.crowded());
  });
  EXPECT_NE(all.find("error: 99\n"), std::string::npos);
  EXPECT_EQ(all.find("error: 100\n"), std::string::npos);
  EXPECT_TRUE(all.ends_with("error: and 50 more problems\n"));
}

TEST(DiagnosticTest, TheClosestNameIsFoundWhenItIsNear) {
  const std::vector<std::string> names = {"hidden", "dropout", "lr"};
  EXPECT_EQ(closest("hiden", names), "hidden");
  EXPECT_EQ(closest("hiddne", names), "hidden") << "neighbours swapped";
  EXPECT_EQ(closest("rl", names), "lr");
  EXPECT_EQ(closest("wombat", names), "");
  EXPECT_EQ(closest("x", {"y", "xy"}), "") << "one letter tells nothing";
  EXPECT_EQ(closest(std::string(100'000, 'h'), names), "") << "and takes no time";
  EXPECT_EQ(did_you_mean("dropuot", names), "did you mean 'dropout'?");
  EXPECT_EQ(did_you_mean("wombat", names), "");
}

}  // namespace
}  // namespace accel::diagnostic_test
