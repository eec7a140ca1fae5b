// Listings and descriptions of components for the terminal.
#pragma once

#include <string>
#include <vector>

#include "core/recipe/registry.h"

namespace accel {

/// All components with their summaries, by kind, in at most 100 columns. `kind` empty: all kinds.
/// Throws Error naming the nearest kind when there is none of that name.
std::string list_text(const Registry& registry, const std::string& kind);

/// The catalogue of a kind. Throws as list_text() does.
const CatalogIndex& catalog_of(const Registry& registry, const std::string& kind);

/// A component with all its options, in at most 100 columns. Throws Error naming the nearest
/// component when there is none of that name.
std::string explain_text(const CatalogIndex& catalog, const std::string& name);

/// A recipe key such as "train.batch", an option of a component such as "adamw.lr", a component, or
/// the components of a kind, in at most 100 columns. `sections`: the top-level fields of recipes.
/// Throws Error naming the nearest key.
std::string explain_word(const std::string& word, const std::vector<FieldInfo>& sections,
                         const Registry& registry);

}  // namespace accel
