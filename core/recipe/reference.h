// Reference pages of docs/reference, generated from the declarations of options.
#pragma once

#include <string>
#include <vector>

#include "core/recipe/registry.h"

namespace accel {

/// The Markdown page of one kind: each component with its options and a small example.
std::string reference_page(const CatalogIndex& catalog);

/// The Markdown page of the recipe's own sections and keys.
std::string recipe_reference(const std::vector<FieldInfo>& top);

}  // namespace accel
