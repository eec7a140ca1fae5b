#include "models/hf/tied_head.h"

#include <algorithm>
#include <cstring>

#include "core/base/error.h"
#include "models/lora/lora_folder.h"

namespace accel {
namespace {

/// The first of the names that the folder has; null without any.
const Array* first_named(const HfWeights& weights, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto found = std::find_if(weights.tensors().begin(), weights.tensors().end(),
                                    [&](const NamedArray& tensor) { return tensor.name == name; });
    if (found != weights.tensors().end()) return &found->array;
  }
  return nullptr;
}

}  // namespace

bool has_own_head(const HfWeights& weights, const std::vector<std::string>& heads,
                  const std::vector<std::string>& tables) {
  const Array* const head = first_named(weights, heads);
  const Array* const table = first_named(weights, tables);
  if (!head || !table) return head != nullptr;
  if (head->type() != table->type() || head->shape() != table->shape()) return true;
  const bool differs = std::memcmp(head->data(), table->data(), head->bytes()) != 0;
  for (const Array* const array : {head, table}) weights.forget({array->data(), array->bytes()});
  return differs;
}

bool has_own_head(const HfConfig& config, const HfNames& names) {
  if (names.tied_table.empty()) return false;
  const std::string head = std::string(kLanguageHead) + ".weight";
  const std::string table = names.stored_name(names.tied_table);
  std::vector<std::string> heads = {names.stored_name(head)}, tables = {table};
  if (names.module.name) heads.push_back(names.module.name(head));
  if (table.starts_with(names.base)) tables.push_back(table.substr(names.base.size()));
  try {
    const HfWeights weights(config.path().substr(0, config.path().rfind('/')));
    return has_own_head(weights, heads, tables);
  } catch (const DataError&) {
    return false;  // told where the weights are loaded
  }
}

}  // namespace accel
