#include "core/node.h"

#include <utility>

namespace accel {

const Node::Entry* Node::find(std::string_view key) const {
  if (!map()) return nullptr;
  for (const Entry& entry : *map()) {
    if (entry.key == key) return &entry;
  }
  return nullptr;
}

Node::Entry* Node::find(std::string_view key) {
  return const_cast<Entry*>(std::as_const(*this).find(key));
}

std::string Node::describe() const {
  if (const Scalar* s = scalar())
    return s->quoted ? "the text '" + s->text + "'" : "'" + s->text + "'";
  if (list()) return "a list";
  if (map()) return "a section";
  return "nothing";
}

Node scalar_node(std::string text, bool quoted, Span where) {
  return {Scalar{std::move(text), quoted}, std::move(where)};
}

}  // namespace accel
