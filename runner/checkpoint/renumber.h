// Optimizer state by the names of its parameters, as FSDP keeps it, or by running numbers, as
// torch.optim does.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "runner/formats/pickle.h"

namespace accel {

/// A torch.optim state_dict with every parameter as the running number of its place in the groups;
/// it may have had names. Throws FormatError for what is no state_dict.
Value by_running_number(const Value& optimizer);

/// The same with names. Those of numbers are the first of `names`, which are then taken off it: the
/// rest belongs to further optimizers. Null when there are not enough. Throws FormatError for what
/// is no state_dict.
std::optional<Value> by_parameter_name(const Value& optimizer, std::span<const std::string>& names);

}  // namespace accel
