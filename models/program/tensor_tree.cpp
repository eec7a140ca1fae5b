#include "models/program/tensor_tree.h"

#include "core/base/format_error.h"
#include "core/base/text.h"

namespace accel {

TensorTree& TensorTree::owner_of(const std::string& name, std::string& last) {
  const size_t dot = name.find('.');
  const std::string part = name.substr(0, dot);
  if (part.empty()) throw FormatError(text("'{}' is not a valid tensor name", name));
  if (dot == name.npos) {
    const bool taken = named_parameters(false).contains(part) ||
                       named_buffers(false).contains(part) || named_children().contains(part);
    if (taken) throw FormatError(text("there are two tensors or modules '{}'", part));
    last = part;
    return *this;
  }
  if (const std::shared_ptr<torch::nn::Module>* child = named_children().find(part)) {
    return dynamic_cast<TensorTree&>(**child).owner_of(name.substr(dot + 1), last);
  }
  if (named_parameters(false).contains(part) || named_buffers(false).contains(part)) {
    throw FormatError(text("'{}' is both a tensor and a module", part));
  }
  return register_module(part, std::make_shared<TensorTree>())
      ->owner_of(name.substr(dot + 1), last);
}

void TensorTree::to(at::Device device, bool non_blocking) {
  torch::nn::Module::to(device, non_blocking);
  for (at::Tensor& constant : constants_) {
    constant.set_data(constant.detach().to(device, constant.scalar_type(), non_blocking));
  }
}

void TensorTree::add_parameter(const std::string& name, const at::Tensor& tensor) {
  std::string last;
  TensorTree& owner = owner_of(name, last);
  owner.register_parameter(last, tensor, tensor.requires_grad());
}

void TensorTree::add_buffer(const std::string& name, const at::Tensor& tensor) {
  std::string last;
  TensorTree& owner = owner_of(name, last);
  owner.register_buffer(last, tensor);
}

}  // namespace accel
