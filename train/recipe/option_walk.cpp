#include "train/recipe/option_walk.h"

#include <utility>

namespace accel {
namespace {

/// Extends a key during its lifetime.
class KeyPart {
 public:
  KeyPart(std::string& key, const std::string& part) : key_(key), size_(key.size()) {
    key += (key.empty() ? "" : ".") + part;
  }
  ~KeyPart() { key_.resize(size_); }
  KeyPart(const KeyPart&) = delete;
  KeyPart& operator=(const KeyPart&) = delete;

 private:
  std::string& key_;
  size_t size_;
};

}  // namespace

void OptionWalk::visit_section(const Node& section, const std::vector<FieldInfo>& fields) {
  for (const FieldInfo& field : fields) {
    if (const Node::Entry* entry = section.find(field.name)) visit_field(entry->node, field);
  }
}

void OptionWalk::visit_field(const Node& value, const FieldInfo& field) {
  const KeyPart part(key_, field.name);
  if (!field.kind.empty()) {
    visit_components(value, field.kind);
  } else if (!field.fields.empty()) {
    visit_section(value, field.fields);
  } else {
    option(value, field);
  }
}

void OptionWalk::visit_components(const Node& node, const std::string& kind) {
  const Node::List* list = node.list();
  if (!list) return visit_component(node, kind);
  for (size_t i = 0; i < list->size(); ++i) {
    const KeyPart part(key_, std::to_string(i));
    visit_component((*list)[i], kind);
  }
}

void OptionWalk::visit_component(const Node& node, const std::string& kind) {
  const Node::Entry* entry = node.find("type");
  const Node& type = entry ? entry->node : node;
  if (!type.scalar()) return;
  for (const CatalogIndex* catalog : registry_.all()) {
    const auto found = catalog->items().find(type.scalar()->text);
    if (catalog->kind() != kind || found == catalog->items().end()) continue;
    const std::string around = std::exchange(component_, found->first);
    const std::string kind_around = std::exchange(kind_, kind);
    const Node* const node_around = std::exchange(node_, &node);
    const ComponentInfo* const info_around = std::exchange(info_, &found->second);
    visit_section(node, found->second.fields);
    node_ = node_around;
    info_ = info_around;
    component_ = around;
    kind_ = kind_around;
    component(node, type, found->second);
  }
}

}  // namespace accel
