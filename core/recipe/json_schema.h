// JSON Schema of recipes, for completion and validation in editors.
#pragma once

#include <string>
#include <vector>

#include "core/recipe/registry.h"

namespace accel {

/// A JSON Schema (draft 2020-12) of recipes whose top-level keys are `top` and whose components are
/// those of `registry`.
///
/// It accepts the recipe language: units, `${...}` for any value, `key+`, `key!` and `~key`, bare
/// names of components, one value for a list of one, `x-` notes. Required keys are optional in a
/// recipe with includes. Throws std::logic_error when the keywords of a codec or rule are invalid
/// JSON.
std::string json_schema(const std::vector<FieldInfo>& top, const Registry& registry);

}  // namespace accel
