// What there is to name in a recipe, as text for a terminal.
#pragma once

#include <string>

#include "core/registry.h"

namespace accel {

/// All components with their summaries, by kind, in at most 100 columns. `kind` empty: all kinds.
/// Throws Error naming the nearest kind when there is none of that name.
std::string list_text(const Registry& registry, const std::string& kind);

/// The catalogue of a kind. Throws as list_text() does.
const CatalogIndex& catalog_of(const Registry& registry, const std::string& kind);

/// A component with all its options, in at most 100 columns. Throws Error naming the nearest
/// component when there is none of that name.
std::string explain_text(const CatalogIndex& catalog, const std::string& name);

}  // namespace accel
