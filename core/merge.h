// How layers of a recipe become one: later wins, key by key, and every word is remembered.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/node.h"

namespace accel {

/// What one layer said of one key.
struct Assignment {
  enum class Effect {
    kSet,       ///< gave it this value
    kAppended,  ///< added these items to a list
    kDropped,   ///< took it away by changing the `type` beside it
  };

  std::string key;  ///< "optimizer.lr"
  Node value;       ///< as it was written, with its place
  Effect effect = Effect::kSet;
};

/// Every assignment, in the order the layers were laid.
using History = std::vector<Assignment>;

/// Those that speak of `key`, of something inside it or of a section around it.
History assignments_of(const History& history, std::string_view key);

/// What merging writes to besides the tree.
struct Merging {
  History& history;
  Diagnostics& problems;
};

/// Lays `layer` over `base`, the value of `key` ("" for the whole recipe).
///
/// Sections merge key by key; everything else is replaced. In a layer's sections `key+` appends to
/// a list, `key!` replaces a section whole, `~key` is the same as `key: ~`. A section whose `type`
/// changes loses the options of the old type; a bare name counts as `{type: name}`.
void merge(Node& base, const Node& layer, const std::string& key, Merging& merging);

}  // namespace accel
