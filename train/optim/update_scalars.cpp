#include "train/optim/update_scalars.h"

#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_neg.h>
#include <ATen/ops/_foreach_pow.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/full.h>
#include <ATen/ops/stack.h>

#include <algorithm>
#include <cmath>

#include "kernels/cpu/upcast.h"

namespace accel {
namespace {

at::Tensor widened(const at::Tensor& tensor) {
  return has_16_bits(tensor.scalar_type()) ? tensor.to(at::kFloat) : tensor;
}

}  // namespace

const at::Tensor& UpdateScalar::of_type(at::ScalarType type) const {
  return type == at::kDouble ? exact_ : rounded_;
}

at::Tensor UpdateScalar::scale_(at::Tensor tensor) const {
  if (!exact_.defined()) return tensor.mul_(value_);
  const at::Tensor& factor = of_type(tensor.scalar_type());
  if (!has_16_bits(tensor.scalar_type())) return tensor.mul_(factor);
  return tensor.copy_(widened(tensor).mul_(factor));
}

at::Tensor UpdateScalar::divide(const at::Tensor& tensor) const {
  if (!exact_.defined()) return tensor.div(value_);
  return widened(tensor).div(of_type(tensor.scalar_type())).to(tensor.scalar_type());
}

void UpdateScalar::addcdiv_(const at::Tensor& tensor, const at::Tensor& dividend,
                            const at::Tensor& divisor) const {
  if (!exact_.defined()) {
    tensor.addcdiv_(dividend, divisor, value_);
    return;
  }
  const at::Tensor quotient =
      widened(dividend).mul(of_type(tensor.scalar_type())).div_(widened(divisor));
  if (!has_16_bits(tensor.scalar_type())) {
    tensor.add_(quotient);
  } else {
    tensor.copy_(widened(tensor).add_(quotient));
  }
}

UpdateScalars::UpdateScalars(const std::vector<at::Tensor>& values) {
  if (values.empty()) return;
  if (values.front().is_cpu()) {
    for (const at::Tensor& value : values) host_.push_back(value.item().toDouble());
  } else {
    device_ = at::stack(values).to(at::kDouble).unbind();
  }
}

template <class OnHost, class OnDevice>
UpdateScalars UpdateScalars::map(const OnHost& on_host, const OnDevice& on_device) const {
  UpdateScalars out;
  if (!device_.empty()) {
    out.device_ = on_device(device_);
    return out;
  }
  for (size_t i = 0; i < host_.size(); ++i) out.host_.push_back(on_host(host_[i], i));
  return out;
}

UpdateScalars::Tensors UpdateScalars::repeated(double value) const {
  return Tensors(device_.size(), at::full({}, value, device_.front().options()));
}

// The powers of tensors of one element have the bits of std::pow, those of longer ones on the CPU
// do not.
UpdateScalars UpdateScalars::powers_of(double base) const {
  return map([base](double x, size_t) { return std::pow(base, x); },
             [&](const Tensors& x) { return at::_foreach_pow(repeated(base), x); });
}

UpdateScalars UpdateScalars::to_power(double exponent) const {
  return map([exponent](double x, size_t) { return std::pow(x, exponent); },
             [&](const Tensors& x) { return at::_foreach_pow(x, repeated(exponent)); });
}

UpdateScalars UpdateScalars::sqrt() const {
  return map([](double x, size_t) { return std::sqrt(x); },
             [](const Tensors& x) { return at::_foreach_sqrt(x); });
}

UpdateScalars UpdateScalars::negated() const {
  return map([](double x, size_t) { return -x; },
             [](const Tensors& x) { return at::_foreach_neg(x); });
}

UpdateScalars UpdateScalars::subtracted_from(double minuend) const {
  return map([minuend](double x, size_t) { return minuend - x; },
             [&](const Tensors& x) { return at::_foreach_sub(repeated(minuend), x); });
}

UpdateScalars UpdateScalars::dividing(double dividend) const {
  return map([dividend](double x, size_t) { return dividend / x; },
             [&](const Tensors& x) { return at::_foreach_div(repeated(dividend), x); });
}

UpdateScalars UpdateScalars::divided_by(double divisor) const {
  return map([divisor](double x, size_t) { return x / divisor; },
             [&](const Tensors& x) { return at::_foreach_div(x, repeated(divisor)); });
}

UpdateScalars UpdateScalars::at_most(double limit) const {
  return map([limit](double x, size_t) { return std::min(limit, x); },
             [limit](const Tensors& x) { return at::_foreach_clamp_max(x, limit); });
}

UpdateScalars UpdateScalars::at_least(double limit) const {
  return map([limit](double x, size_t) { return std::max(limit, x); },
             [limit](const Tensors& x) { return at::_foreach_clamp_min(x, limit); });
}

UpdateScalars UpdateScalars::times(const UpdateScalars& factors) const {
  return map([&](double x, size_t i) { return x * factors.host_[i]; },
             [&](const Tensors& x) { return at::_foreach_mul(x, factors.device_); });
}

UpdateScalars UpdateScalars::divided_by(const UpdateScalars& divisors) const {
  return map([&](double x, size_t i) { return x / divisors.host_[i]; },
             [&](const Tensors& x) { return at::_foreach_div(x, divisors.device_); });
}

UpdateScalars UpdateScalars::divided_by(const std::vector<double>& divisors) const {
  return map([&](double x, size_t i) { return x / divisors[i]; },
             [&](const Tensors& x) {
               return at::_foreach_div(x,
                                       std::vector<at::Scalar>(divisors.begin(), divisors.end()));
             });
}

std::vector<UpdateScalar> UpdateScalars::list() const {
  std::vector<UpdateScalar> out;
  for (const double value : host_) out.emplace_back(value);
  if (device_.empty()) return out;
  const Tensors rounded = at::stack(device_).to(at::kFloat).unbind();
  for (size_t i = 0; i < device_.size(); ++i) out.emplace_back(device_[i], rounded[i]);
  return out;
}

UpdateScalars bias_corrections(const UpdateScalars& steps, double beta) {
  return steps.powers_of(beta).subtracted_from(1);
}

AdamCorrections::AdamCorrections(const std::vector<at::Tensor>& step_counts,
                                 const std::vector<double>& betas, double lr) {
  const UpdateScalars counts(step_counts);
  steps = bias_corrections(counts, betas[0]).dividing(-lr).list();
  roots = bias_corrections(counts, betas[1]).sqrt().list();
}

}  // namespace accel
