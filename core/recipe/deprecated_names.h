// Deprecated names of options and components, which recipes may use with a warning.
#pragma once

#include <string>
#include <vector>

#include "core/recipe/field_info.h"
#include "core/recipe/node.h"

namespace accel {

struct Registry;

/// A dotted key and its value.
struct KeyedValue {
  std::vector<std::string> path;  ///< "callbacks.0.decay" in parts; numbers index lists
  Node value;
  Span where;  ///< of the key
};

/// Trees around a layer, which give the type of a component where the layer has only options of it:
/// first `below`, the tree that it will be merged into, then `composed`, that of all layers.
struct TypeSources {
  const Node* below = nullptr;     ///< null: none
  const Node* composed = nullptr;  ///< null: none
};

/// Replaces deprecated names in trees of one kind: in a layer before it is merged, in a whole
/// recipe before it is read. What reads the tree then needs to know today's names only.
class DeprecatedNames {
 public:
  /// Of recipes with these top-level fields. `registry` must outlive this.
  DeprecatedNames(std::vector<FieldInfo> sections, const Registry& registry);
  /// Of the options of one component of a kind.
  static DeprecatedNames of_component(const std::string& kind, const Registry& registry);

  /// Warns at each name that it replaces; a name given together with the one that replaces it is an
  /// error.
  void replace(Node& tree, Diagnostics& problems, const TypeSources& types = {}) const;
  /// `path` is empty afterwards when an error was reported.
  void replace(KeyedValue& key, Diagnostics& problems, const TypeSources& types) const;
  /// The same in a dotted key of the recipe, without a warning.
  std::string current_key(const std::string& key, const Node& recipe) const;

 private:
  FieldInfo root_;
  const Registry& registry_;
};

}  // namespace accel
