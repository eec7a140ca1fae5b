// The JSON Schema of recipes, for editors that complete and check while one types.
#pragma once

#include <string>
#include <vector>

#include "core/registry.h"

namespace accel {

/// A JSON Schema (draft 2020-12) of recipes whose top-level keys are `top` and whose components are
/// those of `registry`.
///
/// It takes what the recipe language takes: units, `${...}` in place of any value, `key+`, `key!`
/// and `~key`, bare names for components, one value for a list of one, `x-` notes. A recipe that
/// includes others may leave out what they bring. Throws std::logic_error when a codec's or a
/// rule's keywords are no JSON.
std::string json_schema(const std::vector<FieldInfo>& top, const Registry& registry);

}  // namespace accel
