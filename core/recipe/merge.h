// Merging of recipe layers: later layers win key by key, and all assignments are recorded.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/node.h"

namespace accel {

/// Assignment of one key by one layer.
struct Assignment {
  enum class Effect {
    kSet,       ///< set to this value
    kAppended,  ///< these items appended to a list
    kDropped,   ///< removed by a changed `type` in its section
  };

  std::string key;  ///< "optimizer.lr"
  Node value;       ///< as written, with its position
  Effect effect = Effect::kSet;
};

/// All assignments, in the order of the layers.
using History = std::vector<Assignment>;

/// The assignments of `key`, of keys below it and of the sections around it.
History assignments_of(const History& history, std::string_view key);

class DeprecatedNames;

/// Outputs of merging besides the tree.
struct Merging {
  History& history;
  Diagnostics& problems;
  const DeprecatedNames* names = nullptr;  ///< replaced in layers before they are merged
  const Node* composed = nullptr;          ///< all layers merged, for the types of components
};

/// Merges `layer` into `base`, the value of `key` ("" for the whole recipe).
///
/// Sections merge key by key; everything else is replaced. In a layer's sections `key+` appends to
/// a list, `key!` replaces a section whole, `~key` is the same as `key: ~`. A section whose `type`
/// changes loses the options of the old type; a bare name counts as `{type: name}`.
void merge(Node& base, const Node& layer, const std::string& key, Merging& merging);

}  // namespace accel
