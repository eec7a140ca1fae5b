#include "core/recipe/compose.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "core/recipe/registry.h"
#include "tests/unit/core/recipe_text.h"

namespace accel::compose_test {
namespace {

namespace fs = std::filesystem;

/// A folder of recipes that is gone afterwards. Paths in errors are shown without it.
class ComposeTest : public ::testing::Test {
 protected:
  ComposeTest() {
    std::string pattern = (fs::temp_directory_path() / "compose_test.XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~ComposeTest() override { fs::remove_all(folder_); }

  void write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << text;
  }

  ComposeRequest request(const std::vector<std::string>& overrides = {}) const {
    ComposeRequest out;
    out.recipe = (folder_ / "r.yaml").string();
    out.builtin_folder = (folder_ / "builtin").string();
    int number = 2;
    for (const std::string& text : overrides) out.overrides.push_back({number++, text});
    return out;
  }

  /// The composed tree as one line, or the complaint.
  std::string composed(const ComposeRequest& request) const {
    std::string out;
    const std::string problems = complaint(
        [&](Diagnostics& diagnostics) { out = outline(compose(request, diagnostics).recipe); });
    if (problems.empty()) return out;
    return without_folder(problems);
  }

  std::string without_folder(std::string text) const {
    const std::string prefix = folder_.string() + "/";
    for (size_t at; (at = text.find(prefix)) != std::string::npos;) text.erase(at, prefix.size());
    return text;
  }

  fs::path folder_;
};

TEST_F(ComposeTest, IncludesAreLaidLeftToRightThenTheRecipeThenArguments) {
  write("lib/base.yaml", "include: deeper.yaml\nb: base\nc: base\nd: base\nlist: [base]\n");
  write("lib/deeper.yaml", "a: deeper\nb: deeper\nlist: [deeper]\n");
  write("site.toml", "c = \"site\"\n\"list+\" = [\"site\"]\n");
  write("r.yaml", "include: [lib/base.yaml, ./site.toml]\nd: recipe\nlist+: [recipe]\ne: recipe\n");
  EXPECT_EQ(
      composed(request({"e=argument"})),
      "{a: deeper, b: base, list: [base, 'site', recipe], c: 'site', d: recipe, e: argument}");
}

TEST_F(ComposeTest, LayersBelowAreOverriddenByEverything) {
  write("r.yaml", "include: builtin:base\na: recipe\n");
  write("builtin/base.yaml", "a: builtin\nb: builtin\n");
  ComposeRequest low = request();
  low.below.push_back(parse_recipe("config.yaml", "a: config\nb: config\nc: config\n"));
  EXPECT_EQ(composed(low), "{a: recipe, b: builtin, c: config}");
}

TEST_F(ComposeTest, LayersAboveWinOverTheRecipeAndLoseToArguments) {
  write("r.yaml", "a: recipe\nb: recipe\nc: recipe\n");
  ComposeRequest high = request({"c=argument"});
  high.above.push_back(parse_recipe("flags.yaml", "b: flag\nc: flag\n"));
  EXPECT_EQ(composed(high), "{a: recipe, b: flag, c: argument}");
}

TEST_F(ComposeTest, SmokeIsLaidOverOnlyWhenAskedForAndBelowArguments) {
  write("r.yaml",
        "train: {until: 3 epochs, batch: 8}\nsmoke: {train.until: 4 steps, train.batch: 2}\n");
  const char* kept = ", smoke: {train.until: 4 steps, train.batch: 2}}";
  EXPECT_EQ(composed(request()), std::string("{train: {until: 3 epochs, batch: 8}") + kept);
  ComposeRequest smoke = request({"train.batch=5"});
  smoke.smoke = true;
  EXPECT_EQ(composed(smoke), std::string("{train: {until: 4 steps, batch: 5}") + kept);
}

TEST_F(ComposeTest, VariablesCanBeGivenAsArgumentsAndTheRecipesFolderIsKnown) {
  write("r.yaml", "vars: {data: d}\npath: '${vars.data}/x'\nhere: '${recipe.dir}'\n");
  const std::string folder = folder_.string();
  EXPECT_EQ(composed(request({"vars.data=e"})),
            "{vars: {data: e}, path: 'e/x', here: '" + folder + "'}");
}

TEST_F(ComposeTest, FilesThatCannotBeReadAreNamedWithTheirNeighbours) {
  write("mnist.yaml", "a: 1\n");
  ComposeRequest missing = request();
  missing.recipe = (folder_ / "minst.yaml").string();
  EXPECT_EQ(composed(missing),
            "error: cannot read the recipe 'minst.yaml': No such file or directory\n"
            "  hint: did you mean 'mnist.yaml'?\n");
  missing.recipe = (folder_ / "no_such.yaml").string();
  EXPECT_EQ(composed(missing),
            "error: cannot read the recipe 'no_such.yaml': No such file or directory\n"
            "  hint: give an existing recipe file, or write one with 'accel-run new'\n");
  write("r.yaml", "include: [nowhere/x.yaml, lib]\na: 1\n");
  fs::create_directories(folder_ / "lib");
  EXPECT_EQ(
      composed(request()),
      "r.yaml:1:11: error: cannot read the recipe 'nowhere/x.yaml': No such file or directory\n"
      "    include: [nowhere/x.yaml, lib]\n              ^\n"
      "  hint: relative paths are resolved from the folder of the recipe file\n"
      "r.yaml:1:27: error: cannot read the recipe 'lib': it is a folder\n"
      "    include: [nowhere/x.yaml, lib]\n                              ^\n"
      "  hint: name a recipe file in it\n");
}

TEST_F(ComposeTest, BuiltInRecipesAreFoundByName) {
  write("builtin/mnist.yaml", "a: 1\n");
  write("builtin/tiny/lm.toml", "a = 2\nhere = \"${recipe.dir}\"\n");
  ComposeRequest builtin = request();
  builtin.recipe = "builtin:mnist";
  EXPECT_EQ(composed(builtin), "{a: 1}");
  builtin.recipe = "builtin:tiny/lm";
  EXPECT_EQ(composed(builtin), "{a: 2, here: '" + (folder_ / "builtin/tiny").string() + "'}");
  builtin.recipe = "builtin:minst";
  EXPECT_EQ(composed(builtin),
            "error: cannot read the recipe 'builtin:minst': No such file or directory\n"
            "  hint: did you mean 'builtin:mnist'?\n");
  builtin.recipe = "builtin:nowhere";
  EXPECT_EQ(composed(builtin),
            "error: cannot read the recipe 'builtin:nowhere': No such file or directory\n"
            "  hint: give the name of a built-in recipe, such as builtin:readme\n");
}

TEST_F(ComposeTest, IncludesThatMakeNoSenseAreRefused) {
  write("r.yaml", "include: b.yaml\n");
  write("b.yaml", "include: r.yaml\n");
  EXPECT_EQ(composed(request()),
            "b.yaml:1:10: error: recipes include each other: r.yaml -> b.yaml -> r.yaml\n"
            "    include: r.yaml\n             ^\n");
  write("r.yaml", "include: ['${env:SITE}', {a: b}]\n");
  EXPECT_EQ(composed(request()),
            "r.yaml:1:11: error: 'include' wants the path of a recipe, not the text '${env:SITE}'\n"
            "    include: ['${env:SITE}', {a: b}]\n              ^\n"
            "  hint: references are replaced after files are included\n"
            "r.yaml:1:26: error: 'include' wants the path of a recipe, not a section\n"
            "    include: ['${env:SITE}', {a: b}]\n                             ^\n");
  std::string chain = "include: [";
  for (int i = 0; i < 70; ++i) chain += (i > 0 ? ", c.yaml" : "c.yaml");
  write("c.yaml", "a: 1\n");
  write("r.yaml", chain + "]\n");
  EXPECT_NE(composed(request()).find("error: a recipe may consist of at most 64 files"),
            std::string::npos);
}

TEST_F(ComposeTest, BrokenFilesAreAllReported) {
  write("r.yaml", "include: [b.yaml, c.yaml]\na: 1\n");
  write("b.yaml", "x: [\n");
  write("c.yaml", "y: 1\ny: 2\n");
  EXPECT_EQ(composed(request()),
            "b.yaml:1:4: error: a '[' is never closed\n    x: [\n       ^\n"
            "  hint: add the missing ']' or ','\n"
            "c.yaml:2:1: error: 'y' is given twice\n    y: 2\n    ^\n"
            "  hint: it is first given on line 1\n");
  write("r.yaml", "- 1\n");
  EXPECT_EQ(composed(request()),
            "r.yaml:1:1: error: a recipe is a section, not a list\n    - 1\n    ^\n");
  write("r.yaml", "# nothing\n");
  EXPECT_EQ(composed(request()), "r.yaml:1:1: error: the recipe is empty\n    # nothing\n    ^\n");
}

TEST_F(ComposeTest, ProblemsOfArgumentsAndReferencesAreCollectedForTheCaller) {
  write("r.yaml", "a: '${vars.x}'\nb: 1\n");
  EXPECT_EQ(composed(request({"b", "c.d=[", "b.0=1"})),
            "r.yaml:1:5: error: there is no variable 'x'\n    a: '${vars.x}'\n        ^\n"
            "argument 2: error: 'b' is not an override\n    b\n    ^\n"
            "  hint: write 'section.option=value', or '~section' to remove it\n"
            "argument 3: error: a '[' is never closed\n    c.d=[\n        ^\n"
            "  hint: add the missing ']' or ','\n");
}

TEST_F(ComposeTest, TheHistoryTellsWhereAValueComesFrom) {
  write("lib/base.yaml", "train: {batch: 8}\n");
  write("r.yaml", "include: lib/base.yaml\ntrain: {batch: 16}\n");
  Diagnostics problems;
  const Composition out = compose(request({"train.batch=32"}), problems);
  std::string reported;
  for (const Assignment& a : assignments_of(out.history, "train.batch")) {
    reported += a.value.where.source->path + ':' + std::to_string(a.value.where.line) + ' ' +
                outline(a.value) + '\n';
  }
  EXPECT_EQ(without_folder(reported), "lib/base.yaml:1 8\nr.yaml:2 16\ntrain.batch=32:1 32\n");
  ASSERT_EQ(out.files.size(), 2u);
  EXPECT_TRUE(out.files[0].ends_with("lib/base.yaml"));
  EXPECT_TRUE(out.files[1].ends_with("r.yaml"));
}

}  // namespace
}  // namespace accel::compose_test
