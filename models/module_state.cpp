#include "models/module_state.h"

#include <torch/nn/module.h>

#include <set>

#include "core/model.h"

namespace accel {
namespace {

template <class Dict>
std::vector<NamedTensor> once_each(const Dict& tensors) {
  std::vector<NamedTensor> out;
  std::set<const void*> seen;
  for (const auto& item : tensors) {
    if (seen.insert(item.value().unsafeGetTensorImpl()).second) {
      out.push_back({item.key(), item.value()});
    }
  }
  return out;
}

}  // namespace

std::vector<NamedTensor> parameters_of(Model& model) {
  return once_each(model.module().named_parameters());
}

std::vector<NamedTensor> buffers_of(Model& model) {
  return once_each(model.module().named_buffers());
}

void move_to(Model& model, at::Device device) {
  model.module().to(device);
}

void set_training(Model& model, bool training) {
  model.module().train(training);
}

}  // namespace accel
