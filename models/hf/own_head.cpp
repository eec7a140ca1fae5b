#include "models/hf/own_head.h"

#include <algorithm>
#include <cstring>

namespace accel {
namespace {

/// The first of the names that the folder has; null without any.
const Array* first_named(const std::vector<NamedArray>& folder,
                         const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto found = std::find_if(folder.begin(), folder.end(),
                                    [&](const NamedArray& tensor) { return tensor.name == name; });
    if (found != folder.end()) return &found->array;
  }
  return nullptr;
}

}  // namespace

bool has_own_head(const std::vector<NamedArray>& folder, const std::vector<std::string>& heads,
                  const std::vector<std::string>& tables) {
  const Array* const head = first_named(folder, heads);
  const Array* const table = first_named(folder, tables);
  if (!head || !table) return head != nullptr;
  return head->type() != table->type() || head->shape() != table->shape() ||
         std::memcmp(head->data(), table->data(), head->bytes()) != 0;
}

}  // namespace accel
