#include "core/recipe/reference.h"

#include <gtest/gtest.h>

#include "tests/unit/core/catalog_sample.h"

namespace accel::reference_test {
namespace {

/// The page from the line that starts with `start` to the next heading.
std::string part_of(const std::string& page, const std::string& start) {
  const size_t begin = page.find('\n' + start) + 1;
  const size_t end = page.find("\n## ", begin);
  return page.substr(begin, end == std::string::npos ? end : end + 1 - begin);
}

TEST(ReferencePageTest, ListsTheComponentsWithLinks) {
  const std::string page = reference_page(sample_registry().of<Tracker>());
  EXPECT_NE(page.find("# Trackers\n\n"
                      "- [`null`](#null): Forgets everything.\n"
                      "- [`printer`](#printer): Prints pages of numbers.\n\n"),
            std::string::npos);
  EXPECT_NE(reference_page(sample_registry().of<Dataset>()).find("(#syntheticrows)"),
            std::string::npos);
}

TEST(ReferencePageTest, TellsEveryOptionInATable) {
  const std::string page = reference_page(sample_registry().of<Tracker>());
  EXPECT_EQ(part_of(page, "## `printer`"),
            "## `printer`\n"
            "\n"
            "Prints pages of numbers.\n"
            "\n"
            "```yaml\n"
            "trackers: [{type: printer, path: PATH}]\n"
            "```\n"
            "\n"
            "| option | type | default | on resume | meaning |\n"
            "| --- | --- | --- | --- | --- |\n"
            "| `path` | a path | required | ask | Where to write, below runs/\\<name>. |\n"
            "| `rows` | a whole number, at least 1 | `10` | free | Lines in a page. |\n"
            "| `limit` | a number or 'none' | `none` | ask | Stop at a\\*b of `a\\|b`. |\n"
            "| `columns` | a whole number or 'auto' | `auto` | never | Columns in a page. |\n"
            "| `sizes` | a list | `[3, 4]` | ask | Sizes of pages. |\n"
            "| `style` | a section |  | ask | How it looks. |\n"
            "| `style.color` | a text, one of blue, red | `'blue'` | ask | Of the line. |\n"
            "| `style.width` | a number, more than 0 | `1.5` | ask | In points. |\n");
}

TEST(ReferencePageTest, ExamplesStandWhereARecipeHasTheKind) {
  const std::string page = reference_page(sample_registry().of<Dataset>());
  EXPECT_NE(page.find("data:\n  train: {type: synthetic/rows}\n"), std::string::npos) << page;
}

TEST(RecipeReferenceTest, TellsEverySectionAndLinksToKinds) {
  const std::string page = recipe_reference(SampleRecipe::schema().info());
  EXPECT_NE(
      page.find("| `tracker` | a [tracker](tracker.md) | required | ask | Where numbers go. |"),
      std::string::npos)
      << page;
  EXPECT_NE(page.find("| `metrics` | a list of [metric](metric.md)s |"), std::string::npos);
  EXPECT_EQ(
      part_of(page, "## `data`"),
      "## `data`\n"
      "\n"
      "What to learn from.\n"
      "\n"
      "| option | type | default | on resume | meaning |\n"
      "| --- | --- | --- | --- | --- |\n"
      "| `data.train` | a list of [dataset](dataset.md) | required | ask | What to train on. |\n"
      "| `data.train.weight` | a number, more than 0 | `1` | ask | Its share. |\n"
      "| `data.shuffle` | true or false | `true` | ask | A new order each epoch. |\n");
}

}  // namespace
}  // namespace accel::reference_test
