#include "models/module_state.h"

#include <torch/nn/module.h>
#include <torch/nn/modules/batchnorm.h>

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

bool is_frozen_batch_norm(torch::nn::Module& module) {
  const bool is_norm = module.as<torch::nn::BatchNorm1d>() || module.as<torch::nn::BatchNorm2d>() ||
                       module.as<torch::nn::BatchNorm3d>();
  if (!is_norm || module.parameters(false).empty()) return false;
  for (const at::Tensor& parameter : module.parameters(false)) {
    if (parameter.requires_grad()) return false;
  }
  return true;
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
  if (!training) return;
  for (const auto& module : model.module().modules(false)) {
    if (is_frozen_batch_norm(*module)) module->eval();
  }
}

}  // namespace accel
