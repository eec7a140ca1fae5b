#include "kernels/fp8/fp8_matrix.h"

#include <ATen/ops/_scaled_mm.h>
#include <ATen/ops/constant_pad_nd.h>
#include <ATen/ops/where.h>

#include <stdexcept>
namespace accel {
namespace {

constexpr double kLeastAmax = 1e-12;  // torchao's

/// at::_scaled_mm() wants scales of one kind: [], or [rows, 1].
at::Tensor scale_like(const Fp8Matrix& matrix, const Fp8Matrix& other) {
  const at::Tensor& scale = matrix.inverse_scale;
  if (scale.dim() == other.inverse_scale.dim() || scale.dim() == 2) return scale;
  return scale.expand({matrix.values.size(0), 1}).contiguous();
}

/// The conditions of at::_scaled_mm, on every device.
void check_operands(const Fp8Matrix& a, const Fp8Matrix& b) {
  const auto is_operand = [](const Fp8Matrix& m) {
    const at::Tensor& scale = m.inverse_scale;
    const bool by_row = scale.dim() == 2 && scale.size(0) == m.values.size(0) && scale.size(1) == 1;
    return m.values.dim() == 2 && m.values.is_contiguous() && scale.scalar_type() == at::kFloat &&
           (scale.dim() == 0 || (by_row && scale.is_contiguous()));
  };
  const bool both_wide =
      a.values.scalar_type() == at::kFloat8_e5m2 && b.values.scalar_type() == at::kFloat8_e5m2;
  if (is_operand(a) && is_operand(b) && a.values.size(1) == b.values.size(1) &&
      a.values.size(1) % kFp8Multiple == 0 && b.values.size(0) % kFp8Multiple == 0 && !both_wide) {
    return;
  }
  throw std::logic_error("matrices that at::_scaled_mm does not multiply");
}

}  // namespace

double fp8_max(at::ScalarType type) {
  return type == at::kFloat8_e5m2 ? 57344 : 448;
}

at::Tensor fp8_scale(const at::Tensor& amax, at::ScalarType type, bool to_power_of_2) {
  const at::Tensor wide = amax.to(at::kDouble);
  at::Tensor scale = wide.clamp_min(kLeastAmax).reciprocal().mul(fp8_max(type)).to(at::kFloat);
  if (to_power_of_2) scale = scale.log2().floor().exp2();
  return at::where(wide.isfinite(), scale, 1.0);
}

at::Tensor cast_to_fp8(const at::Tensor& x, const at::Tensor& scale, at::ScalarType type) {
  const double most = fp8_max(type);
  const at::Tensor wide = x.to(at::kFloat);
  // The product with 0 is a zero of the same sign, or NaN.
  return wide.mul(scale).clamp(-most, most).add(wide.mul(0)).to(type);
}

Fp8Matrix to_fp8(const at::Tensor& x, at::ScalarType type, bool by_row, bool to_power_of_2) {
  const at::Tensor amax = by_row ? x.abs().amax(1, /*keepdim=*/true) : x.abs().amax();
  const at::Tensor scale = fp8_scale(amax, type, to_power_of_2);
  return {cast_to_fp8(x, scale, type).contiguous(), scale.reciprocal()};
}

Fp8Matrix transposed(const Fp8Matrix& matrix) {
  return {matrix.values.t().contiguous(), matrix.inverse_scale};
}

Fp8Matrix with_padded_columns(const Fp8Matrix& matrix) {
  const int64_t columns = matrix.values.size(1);
  const int64_t over = columns % kFp8Multiple;
  if (over == 0) return matrix;
  // Bytes: the operator has no fp8. The byte 0 is the value 0.
  const at::Tensor bytes =
      at::constant_pad_nd(matrix.values.view(at::kByte), {0, kFp8Multiple - over});
  return {bytes.view(matrix.values.scalar_type()), matrix.inverse_scale};
}

at::Tensor fp8_product(const Fp8Matrix& a, const Fp8Matrix& b, at::ScalarType type, bool fast) {
  check_operands(a, b);
  if (a.values.is_cuda()) {
    return at::_scaled_mm(a.values, b.values.t(), scale_like(a, b), scale_like(b, a).t(), {}, {},
                          type, fast);
  }
  const at::Tensor sums = a.values.to(at::kFloat).mm(b.values.to(at::kFloat).t());
  return sums.mul(a.inverse_scale).mul(b.inverse_scale.t()).to(type);
}

}  // namespace accel
