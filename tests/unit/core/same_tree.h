// Whether a tree that was written as YAML is read back as it was.
#pragma once

#include <string>

#include "core/recipe/node.h"
#include "core/recipe/number_text.h"

namespace accel {

/// Whether quotes change how an option reads the text.
inline bool quotes_matter(const std::string& text) {
  return NumberText::read(text).valid || text == "true" || text == "false";
}

/// How `b` differs from `a` at the first such place; "" when every option reads both the same.
inline std::string difference(const Node& a, const Node& b) {
  const auto became = [](const std::string& x, const std::string& y) { return x + " became " + y; };
  if (a.value.index() != b.value.index()) return became(a.describe(), b.describe());
  if (const Scalar* was = a.scalar()) {
    const Scalar* is = b.scalar();
    const bool quoted_alike =
        was->quoted == is->quoted || (is->quoted && !quotes_matter(was->text));
    return was->text == is->text && quoted_alike ? "" : became(a.describe(), b.describe());
  }
  const auto size = [](const Node& node) {
    return node.map() ? node.map()->size() : node.list() ? node.list()->size() : 0;
  };
  if (size(a) != size(b)) return became(std::to_string(size(a)), std::to_string(size(b)));
  std::string inner;
  for (size_t i = 0; i < size(a) && inner.empty(); ++i) {
    if (const Node::List* list = a.list()) {
      inner = difference((*list)[i], (*b.list())[i]);
      continue;
    }
    const Node::Entry &was = (*a.map())[i], &is = (*b.map())[i];
    if (was.key != is.key) return became("key '" + was.key + "'", "'" + is.key + "'");
    inner = difference(was.node, is.node);
  }
  return inner;
}

/// How what `written` reads back as differs from `tree`, or why it does not read back.
inline std::string read_back_difference(const Node& tree, const std::string& written) {
  try {
    return difference(tree, parse_recipe("again.yaml", written));
  } catch (const RecipeError& error) {
    return error.what();
  }
}

}  // namespace accel
