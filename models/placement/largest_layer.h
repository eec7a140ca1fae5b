// The largest module that placement does not split.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "models/placement/module_sizes.h"

namespace accel {

struct LargestLayer {
  int64_t bytes = 0;
  std::vector<std::string> names;  ///< of all of this size

  /// Drops the names of the module and of modules in it.
  void remove(const std::string& module);
};

/// Of modules and tensors: those without children or of an unsplittable class.
LargestLayer largest_layer(const std::vector<NamedModule>& modules, const ModuleSizes& sizes,
                           const PlacedModel& model);

bool is_unsplittable(const ModuleTree& module, const PlacedModel& model);

}  // namespace accel
