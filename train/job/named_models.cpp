#include "train/job/named_models.h"

namespace accel {

void add_named(std::vector<Parameter>& out, const std::string& prefix,
               const std::vector<Parameter>& tensors) {
  for (const Parameter& item : tensors) out.push_back({prefix + item.name, item.local});
}

}  // namespace accel
