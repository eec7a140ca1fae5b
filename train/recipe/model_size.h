// Sizes that fit into no memory, at the option that asks for them.
#pragma once

#include <cstdint>
#include <string>

#include "core/recipe/node.h"

namespace accel {

/// Throws LocatedError (memory) for `what`, such as "the model 'mlp'". Its position is the largest
/// whole number in the section `name` of the recipe.
[[noreturn]] void throw_too_large(const std::string& what, const std::string& reason,
                                  const Node& recipe, const std::string& name);

/// The position of the largest whole number in the section `name` of the recipe; of the section if
/// it has none.
Span largest_size(const Node& recipe, const std::string& name);

/// Whether training may hold more than `bytes` of weights, gradients and optimizer state: an upper
/// bound by the sizes in the sections `model` and `task`, for which nothing is built.
bool may_exceed(const Node& recipe, int64_t bytes);

/// Throws it for a size in the section `model` with which a single weight has 1 TiB or more, before
/// the model is built.
void check_model_size(const Node& recipe, const std::string& type);

}  // namespace accel
