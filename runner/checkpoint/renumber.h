// Optimizer state by the names of its parameters, as FSDP keeps it, or by running numbers, as
// torch.optim does.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/formats/pickle.h"

namespace accel {

/// A torch.optim state_dict with every parameter as the running number of its place in the groups;
/// it may have had names. Throws FormatError for what is no state_dict.
Value by_running_number(const Value& optimizer);

/// The same with names; `names` stands for the running numbers. Null when they are not as many.
/// Throws FormatError for what is no state_dict.
std::optional<Value> by_parameter_name(const Value& optimizer,
                                       const std::vector<std::string>& names);

}  // namespace accel
