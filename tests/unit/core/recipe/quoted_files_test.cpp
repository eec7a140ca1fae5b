#include "core/recipe/quoted_files.h"

#include <gtest/gtest.h>

#include "core/recipe/node.h"

namespace accel::quoted_files_test {
namespace {

std::string error_of(const std::string& path, const std::string& text) {
  try {
    parse_recipe(path, text);
  } catch (const RecipeError& error) {
    return error.what();
  }
  return "";
}

TEST(QuotedFilesTest, AFileThatIsNotARecipeIsNotQuoted) {
  const std::string refusal =
      "error: this file is not a recipe or config\n"
      "  hint: its text is shown only if its name ends in .yaml, .yml, .toml or .json\n";
  EXPECT_EQ(error_of("/etc/shadow", "root:$6$secret:19000:::\nbin:*:19000:::\n"),
            "/etc/shadow:1:1: " + refusal);
  EXPECT_EQ(error_of("key", "-----BEGIN KEY-----\nsecret\n"), "key:1:1: " + refusal);
  EXPECT_EQ(error_of("rows.csv", "a: 1\n'secret\n"), "rows.csv:2:1: " + refusal);
  EXPECT_EQ(error_of("recipe", "model: {type: mlp}\n"), "");
}

TEST(QuotedFilesTest, LinesAreShownOfRecipesOnly) {
  const auto shown = [](const std::string& path) {
    return render({parse_recipe(path, "a: secret\n").find("a")->node.where, "wrong", ""});
  };
  EXPECT_EQ(shown("a.yaml"), "a.yaml:1:4: error: wrong\n    a: secret\n       ^\n");
  EXPECT_EQ(shown("a.env"), "a.env:1:4: error: wrong\n");
}

}  // namespace
}  // namespace accel::quoted_files_test
