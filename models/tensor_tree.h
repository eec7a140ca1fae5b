// Modules that only hold tensors, for models whose code is not ours.
#pragma once

#include <torch/nn/module.h>

#include <memory>
#include <string>
#include <vector>

namespace accel {

class TensorTree final : public torch::nn::Module {
 public:
  /// Enters a tensor under its dotted name, "layers.0.weight", which gives the modules above it.
  /// Added in PyTorch's order, names come back in that order. Throws FormatError for a name that
  /// is taken, or is no name of a tensor.
  void add_parameter(const std::string& name, const at::Tensor& tensor);
  void add_buffer(const std::string& name, const at::Tensor& tensor);
  /// Moves with the others, in place, but is none of them.
  void add_constant(const at::Tensor& tensor) { constants_.push_back(tensor); }

  using torch::nn::Module::to;
  void to(at::Device device, bool non_blocking = false) override;

 private:
  /// The module that the tensor of this name belongs to, and the last part of the name.
  TensorTree& owner_of(const std::string& name, std::string& last);

  std::vector<at::Tensor> constants_;
};

}  // namespace accel
