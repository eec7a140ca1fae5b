// What Hugging Face Accelerate keeps in the files of a checkpoint, as value trees: the layouts of
// optimizer.bin, scheduler.bin, scaler.pt and random_states_<rank>.pkl.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "runner/checkpoint/train_state.h"
#include "runner/formats/pickle.h"

namespace accel {

/// The state_dict of a torch.optim optimizer, parameters numbered in the order of the groups.
Value optimizer_value(const TrainState& state);

/// Names of the parameters in that order.
std::vector<std::string> optimizer_parameters(const OptimizerState& optimizer);

/// How many parameters its groups have.
size_t count_parameters(const Value& optimizer);

/// Reads it back; `names` stands for the running numbers. Sets base_lrs too where the file has
/// them. Throws FormatError when the numbers of parameters differ.
void read_optimizer(const Value& value, const std::vector<std::string>& names, TrainState& state);

/// The updates made, by the largest `step` that a parameter has; nullopt where none has one. Throws
/// FormatError for what counts no steps.
std::optional<int64_t> updates_in(const OptimizerState& optimizer);

/// The state_dict of a LambdaLR, which Python's other schedulers take as well.
Value scheduler_value(const TrainState& state);

/// Sets base_lrs, lrs and every number of the schedule.
void read_scheduler(const Value& value, TrainState& state);

/// The state_dict of a torch GradScaler.
Value scaler_value(const StateDict& scaler);
StateDict read_scaler(const Value& value);

/// A dict of all numbers, texts and tensors, as a registered object's load_state_dict() gets it.
Value custom_value(const StateDict& state);

/// The states of Python's, NumPy's and PyTorch's generators, the first two as seeding leaves them:
/// nothing of ours draws from them, but Accelerate restores PyTorch's only after theirs.
Value random_states_value(const TrainState& state, size_t rank);
/// Sets those of PyTorch's generators that the file has. Ranks are to be read in their order.
void read_random_states(const Value& value, size_t rank, TrainState& state);

}  // namespace accel
