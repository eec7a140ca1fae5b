#include "models/hf/tied_head.h"

#include <string>
#include <vector>

#include "core/base/error.h"
#include "models/lora/lora_folder.h"

namespace accel {

bool has_own_head(const HfConfig& config, const HfNames& names) {
  if (names.tied_table.empty()) return false;
  const std::string head = std::string(kLanguageHead) + ".weight";
  const std::string table = names.stored_name(names.tied_table);
  std::vector<std::string> heads = {names.stored_name(head)}, tables = {table};
  if (names.module.name) heads.push_back(names.module.name(head));
  if (table.starts_with(names.base)) tables.push_back(table.substr(names.base.size()));
  try {
    const HfWeights weights(config.path().substr(0, config.path().rfind('/')));
    return has_own_head(weights.tensors(), heads, tables);
  } catch (const DataError&) {
    return false;  // an error when the weights are loaded
  }
}

}  // namespace accel
