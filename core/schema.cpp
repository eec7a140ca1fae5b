#include "core/schema.h"

namespace accel::detail {

void check_keys(const Node& node, const std::vector<FieldInfo>& fields, Reading& reading) {
  if (!node.map()) {
    if (node.scalar() || node.list()) {
      reading.problems.error(node.where, "expected a section, not " + node.describe());
    }
  } else {
    std::vector<std::string> names;
    for (const FieldInfo& field : fields) names.push_back(field.name);
    for (const Node::Entry& entry : *node.map()) {
      if (entry.key == "type" || entry.key.starts_with("x-")) continue;
      bool known = false;
      for (const std::string& name : names) known = known || name == entry.key;
      if (!known) {
        reading.problems.error(entry.where, "unknown option '" + entry.key + "'",
                               did_you_mean(entry.key, names));
      }
    }
  }
  for (const FieldInfo& field : fields) {
    if (field.required && !node.find(field.name)) {
      reading.problems.error(node.where, "'" + field.name + "' is missing",
                             "add '" + field.name + "': " + field.help);
    }
  }
}

Node with_places(Node written, const Node* given) {
  if (!given) return written;
  written.where = given->where;
  if (!written.map()) return written;
  for (Node::Entry& entry : *written.map()) {
    if (const Node::Entry* source = given->find(entry.key)) {
      entry.where = source->where;
      entry.node = with_places(std::move(entry.node), &source->node);
    }
  }
  return written;
}

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

}  // namespace accel::detail
