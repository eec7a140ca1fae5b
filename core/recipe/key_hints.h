// Hints for unknown keys of recipes: the option to write instead.
#pragma once

#include <string>
#include <vector>

#include "core/recipe/codec.h"
#include "core/recipe/field_info.h"

namespace accel {

/// "'hidden_size: 64'": the option `name` with the value `given` under another name, in the syntax
/// at that position: YAML, TOML, or an argument with its sections.
std::string quoted_option(const std::string& name, const Node::Entry& given);

/// The hint for a key that is not among the section's `own`: the option of that name in other
/// trainers, the closest name, or its section in the recipe. May be "".
std::string unknown_key_hint(const Node::Entry& given, const std::vector<FieldInfo>& own,
                             const Reading& reading);

/// Reports the keys of a section that are not among its `fields`. Notes (`x-...`) are permitted.
void report_unknown_keys(const Node::Map& section, const std::vector<FieldInfo>& fields,
                         Reading& reading);

}  // namespace accel
