#include "core/recipe/node.h"

#include <utility>

namespace accel {

Node::Node() = default;
Node::Node(Value value, Span where) : value(std::move(value)), where(std::move(where)) {}
Node::Node(const Node&) = default;
Node::Node(Node&&) noexcept = default;
Node& Node::operator=(const Node&) = default;
Node& Node::operator=(Node&&) noexcept = default;
Node::~Node() = default;

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

namespace detail {

std::string inline_text(const Node& node) {
  if (const Scalar* scalar = node.scalar()) {
    return scalar->quoted ? "'" + scalar->text + "'" : scalar->text;
  }
  std::string out;
  if (const Node::List* list = node.list()) {
    for (const Node& item : *list) out += (out.empty() ? "" : ", ") + inline_text(item);
    return "[" + out + "]";
  }
  if (const Node::Map* map = node.map()) {
    for (const Node::Entry& entry : *map) {
      out += (out.empty() ? "" : ", ") + entry.key + ": " + inline_text(entry.node);
    }
    return "{" + out + "}";
  }
  return "none";
}

}  // namespace detail
}  // namespace accel
