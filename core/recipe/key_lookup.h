// Lookup of dotted recipe keys in the declarations of sections and components.
#pragma once

#include <string>
#include <vector>

#include "core/recipe/registry.h"

namespace accel {

/// An option that a key names.
struct DeclaredOption {
  FieldInfo field;
  std::string component;  ///< the one that declares it; "" for an option of a section
};

struct KeyLookup {
  bool known = false;                    ///< some recipe has the key
  std::vector<DeclaredOption> options;   ///< components of one kind may declare it differently
  std::vector<std::string> valid_names;  ///< of an unknown key: the names beside its last part
};

/// Looks up a key such as "callbacks.0.decay" among the top-level `sections` of recipes. Any
/// component of a kind may be at its place, so all those with the option are found. Keys in
/// free-form sections such as `vars` are known without a declaration.
KeyLookup find_key(const std::string& key, const std::vector<FieldInfo>& sections,
                   const Registry& registry);

}  // namespace accel
