// What the tests of the recipe language share: texts in, trees or complaints out.
#pragma once

#include <functional>
#include <string>

#include "core/recipe/node.h"

namespace accel {

/// The errors that `work` reports or throws, as a user sees them; "" when there are none.
inline std::string complaint(const std::function<void(Diagnostics&)>& work) {
  try {
    Diagnostics problems;
    work(problems);
    problems.check();
  } catch (const RecipeError& error) {
    return error.what();
  }
  return {};
}

/// The errors of parsing `text` as r.yaml or another file.
inline std::string parse_complaint(const std::string& text, const std::string& path = "r.yaml") {
  return complaint([&](Diagnostics&) { parse_recipe(path, text); });
}

/// A tree as one line: texts in quotes as 'a', sections as {k: v}, lists as [a, b], null as ~.
inline std::string outline(const Node& node) {
  if (const Scalar* s = node.scalar()) return s->quoted ? "'" + s->text + "'" : s->text;
  std::string out;
  if (const Node::List* list = node.list()) {
    for (const Node& item : *list) out += (out.empty() ? "" : ", ") + outline(item);
    return "[" + out + "]";
  }
  if (const Node::Map* map = node.map()) {
    for (const Node::Entry& entry : *map) {
      out += (out.empty() ? "" : ", ") + entry.key + ": " + outline(entry.node);
    }
    return "{" + out + "}";
  }
  return "~";
}

inline std::string parsed(const std::string& text, const std::string& path = "r.yaml") {
  return outline(parse_recipe(path, text));
}

}  // namespace accel
