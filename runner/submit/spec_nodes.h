// Building blocks of YAML and JSON specs.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "core/recipe/node.h"

namespace accel {

/// A text, quoted unless every YAML parser reads the plain text as one.
Node word(const std::string& text);
Node number(int64_t value);
Node yes_no(bool value);
Node items(std::vector<Node> nodes);
Node words(const std::vector<std::string>& texts);

/// A section whose null values are left out.
Node section(std::initializer_list<std::pair<const char*, Node>> entries);

/// Merges `layer` into `base`: sections key by key, lists appended, everything else replaced.
void merge_spec(Node& base, const Node& layer);

/// The tree as JSON, indented. Unquoted numbers, booleans and nulls keep their type.
std::string to_json(const Node& node);

}  // namespace accel
