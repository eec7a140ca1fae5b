#include "core/recipe/extra_catalogs.h"

namespace accel {
namespace {

std::vector<const CatalogIndex*>& added_catalogs() {
  static std::vector<const CatalogIndex*> all;
  return all;
}

}  // namespace

void add_extra_catalog(const CatalogIndex& catalog) {
  added_catalogs().push_back(&catalog);
}

const std::vector<const CatalogIndex*>& extra_catalogs() {
  return added_catalogs();
}

}  // namespace accel
