// Visits the options of a recipe with their declarations.
#pragma once

#include <string>
#include <vector>

#include "core/recipe/registry.h"

namespace accel {

/// Visits the options that a recipe sets, of its sections and of its known components.
class OptionWalk {
 public:
  explicit OptionWalk(const Registry& registry) : registry_(registry) {}
  virtual ~OptionWalk() = default;

  /// A section with these options.
  void visit_section(const Node& section, const std::vector<FieldInfo>& fields);
  /// A component of `kind`, or a list of them.
  void visit_components(const Node& node, const std::string& kind);

 protected:
  /// An option that is neither a section nor a component.
  virtual void option(const Node& value, const FieldInfo& field) = 0;
  /// After the options of a component; `type` is the node of its name.
  virtual void component(const Node& /*node*/, const Node& /*type*/,
                         const ComponentInfo& /*info*/) {}

  const Registry& registry() const { return registry_; }
  /// The component that is visited: its name and kind, "" outside of components.
  const std::string& component_name() const { return component_; }
  const std::string& component_kind() const { return kind_; }
  /// Its node and its declaration; null outside of components.
  const Node* component_node() const { return node_; }
  const ComponentInfo* component_info() const { return info_; }
  /// "data.train.0.path"
  const std::string& key() const { return key_; }

 private:
  void visit_field(const Node& value, const FieldInfo& field);
  void visit_component(const Node& node, const std::string& kind);

  const Registry& registry_;
  std::string component_, kind_, key_;
  const Node* node_ = nullptr;
  const ComponentInfo* info_ = nullptr;
};

}  // namespace accel
