// A script of Python's may have several models, optimizers and schedulers, each with a file:
// optimizer.bin, optimizer_1.bin, ... A state of ours has all weights in one list and all groups in
// another; the groups of one optimizer may be those of several of PyTorch's.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "runner/checkpoint/train_state.h"
#include "runner/formats/pickle.h"

namespace accel {

/// "optimizer.bin", "optimizer_1.bin", ...
std::string numbered_file(const std::string& name, size_t number);

/// The further models that the names tell of, such as 'critic' of "critic/fc.weight", in the order
/// of their files.
std::vector<std::string> further_models(const std::vector<std::string>& names);

/// Of "critic/fc.weight" {"critic", "fc.weight"}; the recipe's model has no name.
std::pair<std::string, std::string> split_name(const std::string& name);

/// The state once per optimizer of PyTorch's: TrainState::optimizers tells which groups are one's,
/// and all groups of one have the same options. Without groups the state itself.
std::vector<TrainState> split_optimizers(const TrainState& state);

/// The state_dict that one optimizer with all the groups would have. Throws FormatError.
Value join_optimizers(std::vector<Value> values);

/// The same of schedulers, of which only the rates are joined. The curve is the first one's.
TorchSchedule join_schedules(const std::vector<TorchSchedule>& schedules);

}  // namespace accel
