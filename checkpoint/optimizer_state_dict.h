// The state_dict of torch.optim optimizers: reading, writing, splitting, joining.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "checkpoint/train_state.h"
#include "formats/tensors/pickle.h"

namespace accel {

/// The state_dict of one optimizer; parameter ids follow the order of the groups.
Value optimizer_value(const TrainState& state);

/// Sets the optimizer state, and base_lrs where the file has them and the state has none. `names`
/// are the parameters by id. Throws FormatError, also for another number of parameters.
void read_optimizer(const Value& value, const std::vector<std::string>& names, TrainState& state);

/// Parameter names in the order of the groups.
std::vector<std::string> optimizer_parameters(const OptimizerState& optimizer);

/// Parameters of all groups.
size_t count_parameters(const Value& optimizer);

/// The number of updates: the largest `step` of a parameter; null without one. Throws FormatError
/// for an invalid `step`.
std::optional<int64_t> updates_in(const OptimizerState& optimizer);

/// One state per torch.optim optimizer, each with a file: by TrainState::optimizers, and by type,
/// since all groups of an optimizer have the same options. The state itself without groups.
std::vector<TrainState> split_optimizers(const TrainState& state);

/// The state_dict of one optimizer with all the groups. Throws FormatError.
Value join_optimizers(std::vector<Value> values);

/// The state_dict with parameters by id, as torch.optim saves it. Throws FormatError.
Value with_param_ids(const Value& optimizer);

/// The state_dict with parameters by name, as FSDP saves it. Takes the names of ids from the front
/// of `names`; the rest belongs to further optimizers. Null with too few names. Throws FormatError.
std::optional<Value> with_param_names(const Value& optimizer, std::span<const std::string>& names);

}  // namespace accel
