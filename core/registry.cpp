#include "core/registry.h"

namespace accel {
namespace {

/// Names that recipes may well ask for and that nothing can have.
constexpr struct {
  const char* kind;
  const char* name;
  const char* reason;
  const char* hint;
} kRefused[] = {
    {"tracker", "aim", "Aim's store can be written by its own Python package only",
     "use 'tensorboard': 'aim convert tensorboard' imports it where tensorflow is installed"},
};

}  // namespace

std::vector<std::string> CatalogIndex::names() const {
  std::vector<std::string> all;
  for (const auto& [name, info] : items_) all.push_back(name);
  return all;
}

void CatalogIndex::enter(ComponentInfo info) {
  const std::string name = info.name;
  if (!items_.emplace(name, std::move(info)).second) {
    throw std::logic_error("two " + kind_ + "s are named '" + name + "'");
  }
}

const ComponentInfo* CatalogIndex::choose(const Node& node, Reading& reading) const {
  const Node* type = &node;  // a bare scalar is short for {type: scalar}
  if (node.map()) {
    const Node::Entry* entry = node.find("type");
    if (!entry) {
      reading.problems.error(node.where, "the " + kind_ + " has no 'type'",
                             "'accel-run list " + kind_ + "' shows what there is");
      return nullptr;
    }
    type = &entry->node;
  }
  const Scalar* scalar = type->scalar();
  if (!scalar) {
    reading.wrong_type(*type, node.map() ? "type" : kind_,
                       (kind_ == "optimizer" ? "the name of an " : "the name of a ") + kind_);
    return nullptr;
  }
  const auto found = items_.find(scalar->text);
  if (found != items_.end()) return &found->second;
  for (const auto& refused : kRefused) {
    if (refused.kind != kind_ || refused.name != scalar->text) continue;
    reading.problems.error(type->where,
                           "there is no " + kind_ + " '" + scalar->text + "': " + refused.reason,
                           refused.hint);
    return nullptr;
  }
  std::string hint = did_you_mean(scalar->text, names());
  if (hint.empty()) {
    hint = scalar->text.find('/') != std::string::npos
               ? "'plugins' must have the file that brings it"
               : "'accel-run list " + kind_ + "' shows what there is";
  }
  reading.problems.error(type->where, "no " + kind_ + " is named '" + scalar->text + "'", hint);
  return nullptr;
}

std::vector<const CatalogIndex*> Registry::all() const {
  return std::apply([](const auto&... each) { return std::vector<const CatalogIndex*>{&each...}; },
                    catalogs);
}

namespace detail {

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

}  // namespace detail
}  // namespace accel
