#include "models/quantized/frozen_weight.h"

#include <ATen/ops/tensor.h>
#include <torch/nn/module.h>

#include <memory>
#include <utility>

#include "models/quantized/cast_weight.h"

namespace accel {

FrozenWeight::FrozenWeight(QuantizedWeight weight, std::optional<at::ScalarType> compute_type)
    : weight_(std::move(weight)), compute_type_(compute_type) {
  stored().set_requires_grad(false);
}

FrozenWeight::FrozenWeight(at::Tensor cast, std::optional<at::ScalarType> compute_type)
    : weight_(std::move(cast)), compute_type_(compute_type) {
  stored().set_requires_grad(false);
}

at::Tensor FrozenWeight::product(const at::Tensor& x, const at::Tensor& bias) const {
  if (const auto* quantized = std::get_if<QuantizedWeight>(&weight_)) {
    return quantized_linear(x, *quantized, bias, compute_type_);
  }
  return cast_linear(x, std::get<at::Tensor>(weight_), bias, compute_type_);
}

at::Tensor FrozenWeight::values() const {
  if (const auto* quantized = std::get_if<QuantizedWeight>(&weight_)) {
    return dequantize_weight(*quantized, at::kFloat);
  }
  return uncast_weight(std::get<at::Tensor>(weight_), at::kFloat);
}

int64_t FrozenWeight::rows() const {
  const auto* quantized = std::get_if<QuantizedWeight>(&weight_);
  return quantized ? quantized->rows : std::get<at::Tensor>(weight_).size(0);
}

const at::Tensor& FrozenWeight::stored() const {
  const auto* quantized = std::get_if<QuantizedWeight>(&weight_);
  return quantized ? quantized->codes : std::get<at::Tensor>(weight_);
}

std::vector<at::Tensor> FrozenWeight::tensors() const {
  std::vector<at::Tensor> out = {stored()};
  if (const auto* quantized = std::get_if<QuantizedWeight>(&weight_)) {
    for (const at::Tensor& scales :
         {quantized->abs_max, quantized->nested_abs_max, quantized->nested_offset}) {
      if (scales.defined()) out.push_back(scales);
    }
  }
  return out;
}

void FrozenWeight::register_scales(torch::nn::Module& layer) const {
  const auto* quantized = std::get_if<QuantizedWeight>(&weight_);
  if (!quantized) return;
  const auto parts = layer.register_module("weight", std::make_shared<torch::nn::Module>());
  const auto add = [&](const char* name, const at::Tensor& tensor) {
    if (tensor.defined()) parts->register_parameter(name, tensor, /*requires_grad=*/false);
  };
  add("absmax", quantized->abs_max);
  add("nested_absmax", quantized->nested_abs_max);
  add("nested_offset", quantized->nested_offset);
  if (quantized->code == WeightCode::kInt8) return;
  add("shape", at::tensor({quantized->rows, quantized->columns}, at::kLong));
}

bool is_state_name(std::string_view name) {
  return name.ends_with(".weight.shape") || name.ends_with(".weight.nested_offset");
}

bool is_scale_name(std::string_view name) {
  return is_state_name(name) || name.ends_with(".weight.absmax") ||
         name.ends_with(".weight.nested_absmax");
}

}  // namespace accel
