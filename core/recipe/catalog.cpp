#include "core/recipe/catalog.h"

#include "core/recipe/deprecated_names.h"

namespace accel {

std::vector<const CatalogIndex*> Registry::all() const {
  return std::apply([](const auto&... each) { return std::vector<const CatalogIndex*>{&each...}; },
                    catalogs);
}

std::vector<const CatalogIndex*> catalogs_of(const Registry& registry) {
  return registry.all();
}

Node detail::with_current_names(const Node& component, const std::string& kind, Reading& reading) {
  Node out = component;
  DeprecatedNames::of_component(kind, reading.registry).replace(out, reading.problems);
  return out;
}

}  // namespace accel
