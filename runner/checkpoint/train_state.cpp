#include "runner/checkpoint/train_state.h"

#include <map>

#include "runner/checkpoint/tensors.h"

namespace accel {
namespace {

void detach_from(StateDict& state) {
  for (auto& [name, tensor] : state.tensors) tensor = host_copy(tensor);
}

/// Copies each memory once, so that tied tensors stay tied.
void detach_from(std::vector<NamedTensor>& tensors) {
  std::map<const void*, at::Tensor> copies;
  for (NamedTensor& named : tensors) {
    at::Tensor& copy = copies[named.tensor.unsafeGetTensorImpl()];
    if (!copy.defined()) copy = host_copy(named.tensor);
    named.tensor = copy;
  }
}

}  // namespace

TrainState snapshot(const TrainState& state) {
  TrainState out = state;
  detach_from(out.model);
  for (OptimizerState::Group& group : out.optimizer.groups) {
    for (OptimizerState::Parameter& parameter : group.parameters) detach_from(parameter.slots);
  }
  detach_from(out.schedule);
  if (out.scaler) detach_from(*out.scaler);
  out.rng = host_copy(out.rng);
  for (auto& [name, part] : out.parts) detach_from(part);
  return out;
}

}  // namespace accel
