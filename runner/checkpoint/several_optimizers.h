// A script of Python's may have several optimizers and schedulers, each with a file: optimizer.bin,
// optimizer_1.bin, ... Ours has one, whose groups may be those of several of PyTorch's.
#pragma once

#include <string>
#include <vector>

#include "runner/checkpoint/train_state.h"
#include "runner/formats/pickle.h"

namespace accel {

/// "optimizer.bin", "optimizer_1.bin", ...
std::string numbered_file(const std::string& name, size_t number);

/// The state once per optimizer of PyTorch's: all groups of one have the same options. Without
/// groups the state itself.
std::vector<TrainState> split_optimizers(const TrainState& state);

/// The state_dict that one optimizer with all the groups would have. Throws FormatError.
Value join_optimizers(std::vector<Value> values);

/// The same of schedulers, of which only the rates are joined. The curve is the first one's.
TorchSchedule join_schedules(const std::vector<TorchSchedule>& schedules);

}  // namespace accel
