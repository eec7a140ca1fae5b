// A linear layer's weight that is not trained: quantized or cast.
#pragma once

#include <optional>
#include <string_view>
#include <variant>
#include <vector>

#include "kernels/quantized_weight.h"

namespace torch::nn {
class Module;
}

namespace accel {

/// A weight [rows, columns], and the type of its products.
class FrozenWeight {
 public:
  /// `compute_type` is that of quantized_linear().
  FrozenWeight(QuantizedWeight weight, std::optional<at::ScalarType> compute_type);
  /// A cast_weight(); `compute_type` is that of cast_linear().
  FrozenWeight(at::Tensor cast, std::optional<at::ScalarType> compute_type);

  /// x [..., columns] times the transposed weight, plus `bias`: [..., rows].
  at::Tensor product(const at::Tensor& x, const at::Tensor& bias) const;
  /// F32 [rows, columns].
  at::Tensor values() const;
  int64_t rows() const;
  /// The codes, or the numbers in their type.
  const at::Tensor& stored() const;
  /// stored() and the scales.
  std::vector<at::Tensor> tensors() const;
  /// Registers the tensors beside stored() by bitsandbytes' names ("weight.absmax"), in a module
  /// "weight" of the layer.
  void register_scales(torch::nn::Module& layer) const;

 private:
  std::variant<QuantizedWeight, at::Tensor> weight_;
  std::optional<at::ScalarType> compute_type_;
};

/// Whether a parameter of this name is registered by register_scales().
bool is_scale_name(std::string_view name);
/// Whether it has values that folders store in JSON: "weight.shape" and "weight.nested_offset".
bool is_state_name(std::string_view name);

}  // namespace accel
