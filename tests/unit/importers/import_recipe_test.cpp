#include "runner/importers/import_recipe.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>

#include "core/error.h"
#include "runner/importers/trainer_keys.h"

namespace accel {
namespace {

Imported imported(const std::string& text, const std::string& peer = "") {
  return import_recipe(parse_recipe("c.yaml", text), "c.yaml", peer);
}

/// The recipe without the places, and the account.
std::string told(const std::string& text) {
  const Imported result = imported(text);
  return result.peer + "\n" + to_yaml(result.recipe) + "--\n" + import_account(result);
}

std::string golden(const std::string& name) {
  const std::string folder = std::getenv("ACCEL_SOURCE_DIR");
  std::ifstream file(folder + "/tests/unit/importers/golden/" + name);
  return {std::istreambuf_iterator<char>(file), {}};
}

/// golden/NAME.yaml is what one peer may say, NAME.expect what becomes of it.
class ImportGoldenTest : public testing::TestWithParam<const char*> {};

TEST_P(ImportGoldenTest, BecomesARecipeAndAnAccount) {
  const std::string config = golden(std::string(GetParam()) + ".yaml");
  ASSERT_NE(config, "");
  EXPECT_EQ(told(config), golden(std::string(GetParam()) + ".expect"));
}

INSTANTIATE_TEST_SUITE_P(ImportRecipe, ImportGoldenTest,
                         testing::Values("trainer", "axolotl", "llama_factory", "torchtune"));

TEST(ImportRecipeTest, EveryKeyIsAccountedFor) {
  for (const char* text :
       {"base_model: x\na: 1\nb: {c: 2}\ndatasets: []\n",
        "model_name_or_path: x\nstage: dpo\ntemplate: llama3\ndataset: alpaca\na: [1]\n",
        "model: {_component_: a.b}\nprofiler: {enabled: true}\na: ~\noptimizer: {x: 1}\n",
        "num_train_epochs: {a: 1}\nlearning_rate: [1, 2]\noptim: 7\nreport_to: {a: b}\n"}) {
    const Node tree = parse_recipe("c.yaml", text);
    const Imported result = import_recipe(tree, "c.yaml", "");
    for (const Node::Entry& entry : *tree.map()) {
      const auto about = [&](const std::string& key) { return key == entry.key; };
      const bool told = std::any_of(result.taken.begin(), result.taken.end(), about) ||
                        std::any_of(result.idle.begin(), result.idle.end(), about) ||
                        std::any_of(result.left.begin(), result.left.end(),
                                    [&](const ImportNote& note) { return about(note.key); });
      EXPECT_TRUE(told) << entry.key << " of " << text;
    }
  }
}

TEST(ImportRecipeTest, KeysInTablesAreThereOnce) {
  std::vector<std::string> names;
  for (const ForeignKey& key : trainer_keys()) names.emplace_back(key.name);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(std::adjacent_find(names.begin(), names.end()), names.end());
}

TEST(ImportRecipeTest, AFileOfNobodyIsRefused) {
  for (const char* text : {"model: mlp\n", "[1, 2]\n"}) {
    try {
      imported(text);
      ADD_FAILURE() << text;
    } catch (const Error& error) {
      EXPECT_STREQ(error.what(), "'c.yaml' is no config of a trainer that is known");
      EXPECT_EQ(error.hint(),
                "say whose it is with '--from': torchtune, axolotl, llama-factory, trainer or "
                "accelerate");
    }
  }
  EXPECT_EQ(imported("model: mlp\n", "trainer").left.at(0).key, "model");
}

TEST(ImportRecipeTest, ValuesSayWhereTheyComeFrom) {
  const std::string text = imported_text(imported("num_train_epochs: 3\nseed: 5\n"));
  const size_t end = text.find('\n');
  EXPECT_TRUE(text.starts_with("seed: 5 ")) << text;
  EXPECT_TRUE(text.substr(0, end).ends_with("  # c.yaml:2")) << text;
}

}  // namespace
}  // namespace accel
