#include "core/api/reward.h"

#include "core/recipe/extra_catalogs.h"

namespace accel {

Catalog<RewardFunction>& reward_catalog() {
  static Catalog<RewardFunction>* const catalog = [] {
    static Catalog<RewardFunction> made;
    add_extra_catalog(made);
    return &made;
  }();
  return *catalog;
}

}  // namespace accel
