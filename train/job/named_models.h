// Models with the names of their parameters in a job.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/api/model.h"
#include "core/api/parameter.h"

namespace accel {

/// Models with the prefixes of their parameters' names.
using NamedModels = std::vector<std::pair<std::string, Model*>>;

/// Appends the tensors with `prefix` before their names.
inline void add_named(std::vector<Parameter>& out, const std::string& prefix,
                      const std::vector<Parameter>& tensors) {
  for (const Parameter& item : tensors) out.push_back({prefix + item.name, item.local});
}

}  // namespace accel
