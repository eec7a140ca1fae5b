// A component with additional keys beside its options: `{type: csv, path: a, weight: 2}`, where
// `weight` belongs to the mixture and the rest to the dataset.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "core/recipe/registry.h"

namespace accel {

/// `Extra` is an options struct with a static schema(); its keys may not be a component's own.
template <class Base, class Extra>
struct Wrapped {
  Ref<Base> component;
  Extra extra;
};

template <class Base, class Extra>
struct Codec<Wrapped<Base, Extra>> {
  static std::string name() { return Codec<Ref<Base>>::name(); }
  static std::string kind() { return Kind<Base>::kName; }
  static std::string json() { return Codec<Ref<Base>>::json(); }
  /// The additional keys.
  static std::vector<FieldInfo> extra_fields() { return Extra::schema().info(); }

  static std::optional<Wrapped<Base, Extra>> read(const Node& node, const std::string& name,
                                                  Reading& reading) {
    Node own = node, outer{Node::Map{}, node.where};
    if (node.map()) {
      own.map()->clear();
      for (const Node::Entry& entry : *node.map()) {
        (is_extra(entry.key) ? outer : own).map()->push_back(entry);
      }
    }
    const size_t before = reading.problems.size();
    Extra extra = Extra::schema().read(outer, reading);
    std::optional<Ref<Base>> ref = Codec<Ref<Base>>::read(own, name, reading);
    if (!ref || reading.problems.size() != before) return std::nullopt;
    return Wrapped<Base, Extra>{std::move(*ref), std::move(extra)};
  }

  static Node write(const Wrapped<Base, Extra>& value) {
    Node out = value.component.resolved;
    Node extra = Extra::schema().write(value.extra);
    if (!out.map()) return out;
    for (Node::Entry& entry : *extra.map()) out.map()->push_back(std::move(entry));
    return out;
  }

 private:
  static bool is_extra(const std::string& key) {
    for (const FieldInfo& field : extra_fields()) {
      if (field.name == key) return true;
    }
    return false;
  }
};

}  // namespace accel
