#include "core/recipe/flat_values.h"

#include "core/recipe/schema_fields.h"

namespace accel {
namespace {

using FlatValues = std::vector<std::pair<std::string, std::string>>;

void flatten(const Node& node, const std::string& path, FlatValues& out) {
  if (const Node::Map* map = node.map()) {
    for (const Node::Entry& entry : *map) {
      flatten(entry.node, path.empty() ? entry.key : path + "." + entry.key, out);
    }
  } else if (const Node::List* list = node.list(); list && !list->empty()) {
    for (size_t i = 0; i < list->size(); ++i)
      flatten((*list)[i], path + "." + std::to_string(i), out);
  } else if (const Scalar* scalar = node.scalar()) {
    out.emplace_back(path, scalar->text);
  } else {
    out.emplace_back(path, detail::inline_text(node));
  }
}

}  // namespace

std::vector<std::pair<std::string, std::string>> flat_values(const Node& resolved) {
  FlatValues values;
  flatten(resolved, "", values);
  return values;
}

}  // namespace accel
