#include "core/api/reward.h"

#include <utility>

#include "core/api/plugin_identity.h"
#include "core/recipe/extra_catalogs.h"

namespace accel {

void Catalog<RewardFunction>::add(ComponentInfo info, Prepare prepare) {
  const std::string name = info.name;
  if (!items().contains(name) || !is_vendor_name(name)) enter(std::move(info));
  prepare_[name] = std::move(prepare);
}

Ref<RewardFunction> Catalog<RewardFunction>::prepare(const Node& node, Reading& reading) const {
  const Node given = detail::with_current_names(node, kind(), reading);
  const ComponentInfo* info = choose(given, reading);
  return info ? prepare_.at(info->name)(given, reading) : Ref<RewardFunction>{};
}

Catalog<RewardFunction>& reward_catalog() {
  static Catalog<RewardFunction>* const catalog = [] {
    static Catalog<RewardFunction> made;
    add_extra_catalog(made);
    return &made;
  }();
  return *catalog;
}

}  // namespace accel
