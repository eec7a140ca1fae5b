// Flat list of a resolved recipe's options.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/recipe/node.h"

namespace accel {

/// Every option of a resolved recipe: {"optimizer.lr", "0.001"}. A secret is its reference.
std::vector<std::pair<std::string, std::string>> flat_values(const Node& resolved);

}  // namespace accel
