#include "models/placement/largest_layer.h"

#include <algorithm>

namespace accel {
namespace {

void visit(const NamedModule& item, const ModuleSizes& sizes, const PlacedModel& model,
           LargestLayer& to) {
  if (item.has_children() && !is_unsplittable(*item.module, model)) {
    for (const auto& [name, child] : item.module->children) {
      visit({full_name(item.name, name), &child}, sizes, model, to);
    }
    return;
  }
  const int64_t bytes = sizes.of(item.name);
  if (bytes > to.bytes) to = {bytes, {}};
  if (bytes == to.bytes) to.names.push_back(item.name);
}

}  // namespace

void LargestLayer::remove(const std::string& module) {
  std::erase_if(names, [&](const std::string& name) {
    return name == module || name.starts_with(module + ".");
  });
}

LargestLayer largest_layer(const std::vector<NamedModule>& modules, const ModuleSizes& sizes,
                           const PlacedModel& model) {
  LargestLayer out;
  for (const NamedModule& item : modules) visit(item, sizes, model, out);
  return out;
}

bool is_unsplittable(const ModuleTree& module, const PlacedModel& model) {
  const auto& classes = model.no_split_module_classes;
  return std::find(classes.begin(), classes.end(), module.type) != classes.end();
}

}  // namespace accel
