// Any YAML taken for the config of another trainer becomes a recipe that parses, and an account of
// every key.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <set>
#include <string>

#include "compat/trainers/import_recipe.h"

namespace {

/// Stops the fuzzer when a key at the top was dropped without a word.
void check_account(const accel::Node& tree, const accel::Imported& imported) {
  std::set<std::string> listed;
  for (const accel::ImportedKey& key : imported.taken) listed.insert(key.key);
  for (const accel::ImportedKey& key : imported.idle) listed.insert(key.key);
  for (const accel::ImportNote& note : imported.left) listed.insert(note.key);
  for (const accel::Node::Entry& entry : *tree.map()) {
    const auto nested = listed.lower_bound(entry.key + '.');
    if (listed.contains(entry.key) ||
        (nested != listed.end() && nested->starts_with(entry.key + '.'))) {
      continue;
    }
    std::cerr << "nothing is said of '" << entry.key << "'\n";
    std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  accel::Node tree;
  try {
    tree = accel::parse_recipe("fuzz.yaml", {reinterpret_cast<const char*>(data), size});
  } catch (const accel::RecipeError&) {
    return 0;
  }
  if (!tree.map()) return 0;
  for (const accel::TrainerFormat& peer : accel::trainer_formats()) {
    const accel::Imported imported = accel::import_recipe(tree, "fuzz.yaml", peer.name);
    check_account(tree, imported);
    accel::import_report(imported);
    const std::string text = accel::imported_text(imported);
    if (text.size() < 100'000) accel::parse_recipe("fuzz.yaml", text);
  }
  return 0;
}
