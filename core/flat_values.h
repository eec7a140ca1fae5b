// A resolved recipe as a list of options.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/node.h"

namespace accel {

/// Every option of a resolved recipe: {"optimizer.lr", "0.001"}. A secret is its reference.
std::vector<std::pair<std::string, std::string>> flat_values(const Node& resolved);

}  // namespace accel
