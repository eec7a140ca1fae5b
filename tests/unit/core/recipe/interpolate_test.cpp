#include "core/recipe/interpolate.h"

#include <gtest/gtest.h>

#include "core/recipe/codec.h"
#include "core/recipe/registry.h"
#include "tests/unit/core/recipe_text.h"

namespace accel::interpolate_test {
namespace {

References known_references() {
  References references;
  references.environment = [](const std::string& name) -> std::optional<std::string> {
    if (name == "USER") return "ada";
    if (name == "COUNT") return "7";
    if (name == "EMPTY") return "";
    if (name == "LATIN1") return "caf\xe9";
    return std::nullopt;
  };
  references.secret = [](const std::string& name) -> std::optional<std::string> {
    return name == "TOKEN" ? std::optional<std::string>("hush") : std::nullopt;
  };
  references.fact = [](const std::string& name) -> std::optional<std::string> {
    if (name == "run.dir") return "/runs/caf\xe9";
    return name == "run.id" ? std::optional<std::string>("r7") : std::nullopt;
  };
  return references;
}

/// The recipe without its vars after references are replaced, or the complaint.
std::string interpolated(const std::string& text) {
  Node recipe = parse_recipe("r.yaml", text);
  const std::string problems = complaint(
      [&](Diagnostics& diagnostics) { interpolate(recipe, known_references(), diagnostics); });
  if (!problems.empty()) return problems;
  std::erase_if(*recipe.map(), [](const Node::Entry& entry) { return entry.key == "vars"; });
  return outline(recipe);
}

struct ReferenceCase {
  const char* text;
  const char* result;
};

TEST(InterpolateTest, ReferencesBecomeWhatTheyName) {
  const ReferenceCase cases[] = {
      {"a: '${vars.x}'\nvars: {x: 1e-3}", "{a: 1e-3}"},
      {"a: '${vars.x}'\nvars: {x: '5'}", "{a: '5'}"},
      {"a: '${vars.x}'\nvars: {x: [1, {b: 2}]}", "{a: [1, {b: 2}]}"},
      {"a: '${vars.x}'\nvars: {x: ~}", "{a: ~}"},
      {"a: '${vars.x}/${vars.y}'\nvars: {x: 1, y: b}", "{a: '1/b'}"},
      {"a: '${vars.x.y}'\nvars: {x: {y: 3}}", "{a: 3}"},
      {"a: '${vars.x.1}'\nvars: {x: [3, 4]}", "{a: 4}"},
      {"a: '${vars.x.z}'\nvars: {x: '${vars.y}', y: {z: 6}}", "{a: 6}"},
      {"a: '${vars.x}'\nvars: {x: '${vars.y}b', y: 'a${env:USER}'}", "{a: 'aadab'}"},
      {"a: '${env:USER}'", "{a: ada}"},
      {"a: '${env:COUNT}'", "{a: 7}"},
      {"a: 'u/${env:USER}'", "{a: 'u/ada'}"},
      {"a: '${env:NONE:-5}'", "{a: 5}"},
      {"a: '${env:NONE:-}'", "{a: ''}"},
      {"a: '${env:EMPTY:-d}'", "{a: d}"},
      {"a: '${env:EMPTY}'", "{a: ''}"},
      {"a: '${env:NONE:-${vars.x}/d}'\nvars: {x: r}", "{a: r/d}"},
      {"a: '${run.id}'", "{a: 'r7'}"},
      {"a: '$$ $${x} $5 cost$'", "{a: '$ ${x} $5 cost$'}"},
      {"a: [{b: '${vars.x}'}]\nvars: {x: 1}", "{a: [{b: 1}]}"},
      {"x-note: '${nothing}'\na: {x-note: '${nothing}'}",
       "{x-note: '${nothing}', a: {x-note: '${nothing}'}}"},
      {"smoke: {a: '${nothing}'}", "{smoke: {a: '${nothing}'}}"},
      {"vars: {unused: '${env:NONE}'}", "{}"},
      {"a: '${secret:TOKEN}'", "{a: '${secret:TOKEN}'}"},
      {"a: 'Bearer ${vars.t} $${x}'\nvars: {t: '${secret:TOKEN}'}",
       "{a: 'Bearer ${secret:TOKEN} $${x}'}"},
  };
  for (const ReferenceCase& c : cases) EXPECT_EQ(interpolated(c.text), c.result) << c.text;
}

TEST(InterpolateTest, WhatCannotBeReplacedIsShownWhereItStands) {
  const ReferenceCase cases[] = {
      {"a: 'x/${vars.rot}'\nvars: {root: 1}",
       "r.yaml:1:7: error: there is no variable 'rot'\n    a: 'x/${vars.rot}'\n          ^\n"
       "  hint: did you mean 'root'?\n"},
      {"a: '${run.di}'",
       "r.yaml:1:5: error: nothing is named 'run.di'\n    a: '${run.di}'\n        ^\n"
       "  hint: did you mean 'run.id'?\n"},
      {"a: '${root}'\nvars: {root: 1}",
       "r.yaml:1:5: error: nothing is named 'root'\n    a: '${root}'\n        ^\n"
       "  hint: write '${vars.root}'\n"},
      {"a: '${HOME}'",
       "r.yaml:1:5: error: nothing is named 'HOME'\n    a: '${HOME}'\n        ^\n"
       "  hint: write '${vars.HOME}' or '${env:HOME}'\n"},
      {"a: '${git.sha}'",
       "r.yaml:1:5: error: 'git.sha' is not known here\n    a: '${git.sha}'\n        ^\n"},
      {"a: '${env:NONE}'",
       "r.yaml:1:5: error: the environment has no 'NONE'\n    a: '${env:NONE}'\n        ^\n"
       "  hint: set it, or give a default: '${env:NONE:-...}'\n"},
      {"a: 'x${env:LATIN1}'",
       "r.yaml:1:6: error: the value of '${env:LATIN1}' is not UTF-8\n"
       "    a: 'x${env:LATIN1}'\n         ^\n"},
      {"a: '${run.dir}'",
       "r.yaml:1:5: error: the value of '${run.dir}' is not UTF-8\n"
       "    a: '${run.dir}'\n        ^\n"},
      {"a: '${secret:KEY}'",
       "r.yaml:1:5: error: there is no secret 'KEY'\n    a: '${secret:KEY}'\n        ^\n"
       "  hint: set the environment variable 'KEY'\n"},
      {"a: 'x${vars.x'",
       "r.yaml:1:6: error: '${' is never closed\n    a: 'x${vars.x'\n         ^\n"
       "  hint: write '$$' for a dollar sign\n"},
      {"a: 'x${vars.x}'\nvars: {x: [1]}",
       "r.yaml:1:6: error: '${vars.x}' is a list, which cannot be inserted into a text\n    a: "
       "'x${vars.x}'\n"
       "         ^\n"},
      {"a: '${vars.x}'\nvars: {x: '${vars.y}', y: '${vars.x}'}",
       "r.yaml:2:28: error: variables refer to each other: vars.x -> vars.y -> vars.x\n"
       "    vars: {x: '${vars.y}', y: '${vars.x}'}\n                               ^\n"},
      {"a: '${vars.x}'\nvars: {x: [1, '${vars.x}']}",
       "r.yaml:2:16: error: variables refer to each other: vars.x -> vars.x\n"
       "    vars: {x: [1, '${vars.x}']}\n                   ^\n"},
  };
  for (const ReferenceCase& c : cases) {
    std::string expected = c.result;
    EXPECT_EQ(interpolated(c.text), expected) << c.text;
  }
}

TEST(InterpolateTest, ReferencesCannotBlowARecipeUp) {
  std::string doubling = "a: '${vars.v0}'\nvars:\n";
  for (int i = 0; i < 40; ++i) {
    const std::string next = "${vars.v" + std::to_string(i + 1) + "}";
    doubling += "  v" + std::to_string(i) + ": '" + next + next + "'\n";
  }
  EXPECT_NE(
      interpolated(doubling + "  v40: xxxxxxxx\n").find("references make the recipe too large"),
      std::string::npos);
  std::string wide = "a: '${vars.v0}'\nvars:\n";
  std::string deep = wide;
  for (int i = 0; i < 70; ++i) {
    const std::string next = "'${vars.v" + std::to_string(i + 1) + "}'";
    wide += "  v" + std::to_string(i) + ": [" + next + ", " + next + "]\n";
    deep += "  v" + std::to_string(i) + ": {k: {k: " + next + "}}\n";
  }
  EXPECT_NE(interpolated(wide + "  v70: 1\n"), "");
  EXPECT_NE(interpolated(deep + "  v70: 1\n").find("nested more than 64 deep"), std::string::npos);
}

TEST(InterpolateTest, AFailedReferenceIsNotReportedAgainByTheOptionThatReadsIt) {
  Node recipe = parse_recipe("r.yaml", "lr: '${vars.lr}'\n");
  EXPECT_EQ(complaint([&](Diagnostics& problems) {
              interpolate(recipe, known_references(), problems);
              const Registry registry;
              Reading reading{problems, registry};
              Codec<double>::read(recipe.find("lr")->node, "lr", reading);
            }),
            "r.yaml:1:6: error: there is no variable 'lr'\n    lr: '${vars.lr}'\n         ^\n");
}

std::string path_of(const Node& recipe, const char* key) {
  Diagnostics problems;
  const Registry registry;
  Reading reading{problems, registry};
  const auto path = Codec<FilePath>::read(recipe.find(key)->node, key, reading);
  return path ? path->text : problems.list()[0].message;
}

TEST(InterpolateTest, APathBelongsToWhoeverWroteItsBeginning) {
  Node recipe = parse_recipe("/site/r.yaml",
                             "here: 'd/${vars.file}'\n"
                             "there: '${vars.file}/x'\n"
                             "from_env: '${env:USER}/x'\n"
                             "fallback: '${env:NONE:-f}/x'\n"
                             "absolute: '/${env:USER}'\n");
  const Node other = parse_recipe("/lib/v.yaml", "{file: v}");
  recipe.map()->push_back({"vars", {}, other});
  Diagnostics problems;
  interpolate(recipe, known_references(), problems);
  ASSERT_TRUE(problems.empty());
  EXPECT_EQ(path_of(recipe, "here"), "/site/d/v");
  EXPECT_EQ(path_of(recipe, "there"), "/lib/v/x");
  EXPECT_EQ(path_of(recipe, "fallback"), "/site/f/x");
  EXPECT_EQ(path_of(recipe, "absolute"), "/ada");
  EXPECT_TRUE(path_of(recipe, "from_env").ends_with("/ada/x"));
  EXPECT_FALSE(path_of(recipe, "from_env").starts_with("/site")) << "the working folder's";
}

TEST(InterpolateTest, SecretsReachSecretOptionsAndNoOthers) {
  Node recipe = parse_recipe("r.yaml", "key: 'k-${secret:TOKEN}'\n");
  Diagnostics problems;
  interpolate(recipe, known_references(), problems);
  const Registry registry;
  Reading reading{problems, registry};
  const Node& node = recipe.find("key")->node;
  const auto secret = Codec<Secret>::read(node, "key", reading);
  ASSERT_TRUE(secret);
  EXPECT_EQ(secret->value, "k-hush");
  EXPECT_EQ(secret->reference, "k-${secret:TOKEN}");
  EXPECT_EQ(to_yaml(escape_references(Codec<Secret>::write(*secret))), "'k-${secret:TOKEN}'\n");
  EXPECT_FALSE(Codec<std::string>::read(node, "key", reading));
  EXPECT_FALSE(Codec<double>::read(node, "key", reading));
  for (const Diagnostic& d : problems.list()) {
    EXPECT_EQ((d.message + d.hint).find("hush"), std::string::npos);
  }
  EXPECT_EQ(problems.list()[0].message, "'key' would show a secret");
}

TEST(InterpolateTest, EscapedTreesReadBackAsTheyAre) {
  Node recipe = parse_recipe("r.yaml", "a: '$$$${x} $$$$ $z $'\nvars: {v: '${nothing}'}\n");
  Diagnostics problems;
  interpolate(recipe, {}, problems);
  EXPECT_EQ(outline(recipe.find("a")->node), "'$${x} $$ $z $'");
  Node again = parse_recipe("r.yaml", to_yaml(escape_references(recipe)));
  interpolate(again, {}, problems);
  EXPECT_TRUE(problems.empty());
  EXPECT_EQ(outline(again), outline(recipe));
}

}  // namespace
}  // namespace accel::interpolate_test
