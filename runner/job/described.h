// Components that are known by their description alone: their options are checked as far as words
// and JSON Schema can say, and none of their code is there.
#pragma once

#include "core/registry.h"
#include "runner/plugin/manifest.h"

namespace accel {

/// Enters a component into its kind's catalogue. A recipe that names it is read and resolved as if
/// the component were there, but for rules that only its code knows; making it throws
/// std::logic_error. Throws Error (recipe) for a kind there is not.
void enter_described(const DescribedComponent& component, Registry& registry);

}  // namespace accel
