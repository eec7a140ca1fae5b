#include "core/recipe/registry.h"

namespace accel::detail {

Node with_type(const std::string& name, Node options, const Node& given) {
  const Node::Entry* type = given.find("type");
  Node type_node = scalar_node(name);
  type_node.where = type ? type->node.where : given.where;
  Node::Map map;
  map.push_back({"type", type ? type->where : given.where, std::move(type_node)});
  for (Node::Entry& entry : *options.map()) map.push_back(std::move(entry));
  return {std::move(map), given.where};
}

Node without_type(const Node& given) {
  Node::Map options;
  if (given.map()) {
    for (const Node::Entry& entry : *given.map()) {
      if (entry.key != "type") options.push_back(entry);
    }
  }
  return {std::move(options), given.where};
}

}  // namespace accel::detail
