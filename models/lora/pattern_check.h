// Checks of name patterns in sections of a model.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/recipe/name_pattern.h"
#include "core/recipe/node.h"

namespace accel {

template <class Named>
std::vector<std::string> names_of(const std::vector<Named>& items) {
  std::vector<std::string> names;
  for (const Named& item : items) names.push_back(item.name);
  return names;
}

/// Throws RecipeError for patterns without an effect on any of the items, which have a `name` and
/// are of this kind. `fits(item, pattern)` returns whether a pattern has an effect on the item.
template <class Named, class Fits>
void check_patterns(const std::vector<std::string>& patterns, const char* kind,
                    const std::vector<Named>& items, const Span& where, const Fits& fits) {
  Diagnostics problems;
  for (const std::string& pattern : patterns) {
    const auto fit = [&](const Named& item) { return fits(item, pattern); };
    if (std::any_of(items.begin(), items.end(), fit)) continue;
    const UnmatchedPattern unmatched = {pattern, kind, names_of(items)};
    problems.error(where, unmatched.message(), unmatched.hint());
  }
  problems.check();
}

/// The section `key` of a model's options; an empty one at their place without it.
inline Node section_of(const Node& options, const char* key) {
  const Node::Entry* entry = options.find(key);
  return entry ? Node{entry->node.value, entry->where} : Node{Node::Map{}, options.where};
}

/// The place of an option, or of its section.
inline Span place_of(const Node& section, const char* key) {
  const Node::Entry* entry = section.find(key);
  return entry ? entry->node.where : section.where;
}

}  // namespace accel
