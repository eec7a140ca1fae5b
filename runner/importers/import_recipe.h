// Recipes from the configs of other trainers.
#pragma once

#include <string>
#include <vector>

#include "runner/importers/foreign_config.h"

namespace accel {

/// A trainer whose configs can be read. Its table names every key that is known.
struct ImportPeer {
  const char* name;   ///< "axolotl", as `--from` takes it
  const char* title;  ///< "an axolotl config"
  bool (*recognises)(const Node& tree);
  /// Reads all of the tree into `out`.
  void (*read)(const Node& tree, Imported& out);
};

/// All peers, those first that are told by what no other has.
const std::vector<ImportPeer>& import_peers();

/// Makes a recipe of a config. `peer` empty: the one whose keys it has. Every key of the tree is in
/// `taken`, `idle` or `left`. Throws Error(kRecipe) when no peer has such a file.
Imported import_recipe(const Node& tree, const std::string& path, const std::string& peer);

/// The recipe as text, each value with the line it comes from.
std::string imported_text(const Imported& imported);

/// An account for people: what is in the recipe, what asks for nothing, what was left and why.
std::string import_account(const Imported& imported);

extern const ImportPeer kAxolotl;
extern const ImportPeer kLlamaFactory;
extern const ImportPeer kTorchtune;
extern const ImportPeer kTrainer;

}  // namespace accel
