// Type-independent catalogues of components by kind and name.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/recipe/codec.h"
#include "core/recipe/field_info.h"

namespace accel {

/// Description of a component.
struct ComponentInfo {
  std::string name;
  std::string summary;
  std::vector<FieldInfo> fields;
  std::string renamed_from = {};           ///< the deprecated name, or ""
  std::vector<std::string> hint_for = {};  ///< names of it in other frameworks
};

/// Type-independent part of a catalogue.
class CatalogIndex {
 public:
  explicit CatalogIndex(std::string kind) : kind_(std::move(kind)) {}
  const std::string& kind() const { return kind_; }
  const std::map<std::string, ComponentInfo>& items() const { return items_; }
  std::vector<std::string> names() const;
  /// The component with this deprecated name; null for none.
  const ComponentInfo* once_named(const std::string& name) const;

 protected:
  /// The component named by `type` or a bare scalar; null when it is missing or unknown, which is
  /// reported.
  const ComponentInfo* choose(const Node& node, Reading& reading) const;
  /// Throws std::logic_error for a second component of one name.
  void enter(ComponentInfo info);

 private:
  std::string unknown_name_hint(const std::string& name) const;

  std::string kind_;
  std::map<std::string, ComponentInfo> items_;
};

/// Every catalogue of a registry.
std::vector<const CatalogIndex*> catalogs_of(const Registry& registry);

}  // namespace accel
