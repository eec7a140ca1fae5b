#include "runner/checkpoint/snapshot.h"

#include <cstring>
#include <map>

#include "runner/checkpoint/tensors.h"

namespace accel {

at::Tensor Snapshot::copy(const at::Tensor& tensor) {
  if (!tensor.defined()) return tensor;
  if (next_ == buffers_.size()) buffers_.emplace_back();
  at::Tensor& buffer = buffers_[next_++];
  const bool fits = buffer.defined() && buffer.sizes() == tensor.sizes() &&
                    buffer.scalar_type() == tensor.scalar_type() && buffer.is_contiguous() &&
                    tensor.is_cpu() && tensor.is_contiguous();
  if (fits) {
    // Not copy_(), whose threads would compete with those of the training step.
    std::memcpy(buffer.mutable_data_ptr(), tensor.const_data_ptr(), tensor.nbytes());
  } else {
    buffer = host_copy(tensor);
  }
  return buffer;
}

TrainState Snapshot::take(const TrainState& state) {
  next_ = 0;
  TrainState out = state;
  std::map<const void*, at::Tensor> model;  // each memory once
  for (NamedTensor& named : out.model) {
    at::Tensor& made = model[named.tensor.unsafeGetTensorImpl()];
    if (!made.defined()) made = copy(named.tensor);
    named.tensor = made;
  }
  for (OptimizerState::Group& group : out.optimizer.groups) {
    for (OptimizerState::Parameter& parameter : group.parameters) {
      for (NamedTensor& slot : parameter.slots) slot.tensor = copy(slot.tensor);
    }
  }
  const auto copy_all = [this](StateDict& part) {
    for (auto& [name, tensor] : part.tensors) tensor = copy(tensor);
  };
  copy_all(out.schedule);
  if (out.scaler) copy_all(*out.scaler);
  out.rng = copy(out.rng);
  for (at::Tensor& rng : out.other_rngs) rng = copy(rng);
  for (at::Tensor& rng : out.device_rngs) rng = copy(rng);
  for (auto& [name, part] : out.parts) copy_all(part);
  buffers_.resize(next_);
  return out;
}

}  // namespace accel
