// Described components: known from a manifest only. Their options are validated by type names and
// JSON Schema, without any of the plugin's code.
#pragma once

#include "core/recipe/registry.h"
#include "runner/plugin/manifest.h"

namespace accel {

/// Registers a described component. Recipes that use it are read and resolved, except for rules in
/// its code; building it throws std::logic_error. Throws Error (recipe) for an unknown kind.
void enter_described(const DescribedComponent& component, Registry& registry);

}  // namespace accel
