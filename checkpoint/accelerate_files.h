// The value trees of Accelerate's scheduler.bin, scaler.pt, custom_checkpoint_<n>.pkl and
// random_states_<rank>.pkl.
#pragma once

#include <cstddef>

#include "checkpoint/train_state.h"
#include "formats/tensors/pickle.h"

namespace accel {

/// The state_dict of a LambdaLR, which other torch.optim schedulers load as well.
Value scheduler_value(const TrainState& state);

/// Sets base_lrs, lrs and all numbers of the schedule.
void read_scheduler(const Value& value, TrainState& state);

/// The state_dict of a torch GradScaler.
Value scaler_value(const StateDict& scaler);
StateDict read_scaler(const Value& value);

/// A dict of all numbers, texts and tensors, for load_state_dict() of a registered object.
Value custom_value(const StateDict& state);

/// The generator states of Python, NumPy and PyTorch. The first two are freshly seeded and unused,
/// but Accelerate requires them to restore PyTorch's.
Value random_states_value(const TrainState& state, size_t rank);
/// Sets the states of PyTorch's generators that the file has. Read ranks in ascending order.
void read_random_states(const Value& value, size_t rank, TrainState& state);

}  // namespace accel
