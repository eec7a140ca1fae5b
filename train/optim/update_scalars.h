// Scalars of an update that depend on step counts and norms, without waiting for a device.
#pragma once

#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

namespace accel {

/// A float64 number that the host knows, or a 0-d tensor that the device knows. Operations on a
/// device round as those with a number do there: 16-bit types are computed in float32.
class UpdateScalar {
 public:
  explicit UpdateScalar(double value) : value_(value) {}
  /// `exact`: float64, 0-d, on the device of the tensors that it changes. `rounded`: to float32.
  UpdateScalar(at::Tensor exact, at::Tensor rounded)
      : exact_(std::move(exact)), rounded_(std::move(rounded)) {}
  explicit UpdateScalar(const at::Tensor& exact) : UpdateScalar(exact, exact.to(at::kFloat)) {}

  /// tensor *= this; returns it.
  at::Tensor scale_(at::Tensor tensor) const;
  /// tensor / this.
  at::Tensor divide(const at::Tensor& tensor) const;
  /// tensor += this * dividend / divisor, for tensors of one type.
  void addcdiv_(const at::Tensor& tensor, const at::Tensor& dividend,
                const at::Tensor& divisor) const;

 private:
  const at::Tensor& of_type(at::ScalarType type) const;

  double value_ = 0;
  at::Tensor exact_;  ///< undefined: `value_`
  at::Tensor rounded_;
};

/// float64 numbers, one for each of several parameters. Devices round as the host does, but for the
/// last bit of square roots, so that float32 scalars have the same bits.
class UpdateScalars {
 public:
  /// Of 0-d tensors on one device, of any floating-point type. The host reads those on the CPU.
  explicit UpdateScalars(const std::vector<at::Tensor>& values);

  /// base ^ x.
  UpdateScalars powers_of(double base) const;
  /// x ^ exponent.
  UpdateScalars to_power(double exponent) const;
  UpdateScalars sqrt() const;
  UpdateScalars negated() const;
  /// minuend - x.
  UpdateScalars subtracted_from(double minuend) const;
  /// dividend / x.
  UpdateScalars dividing(double dividend) const;
  /// x / divisor.
  UpdateScalars divided_by(double divisor) const;
  UpdateScalars at_most(double limit) const;
  UpdateScalars at_least(double limit) const;
  UpdateScalars times(const UpdateScalars& factors) const;
  UpdateScalars divided_by(const UpdateScalars& divisors) const;
  UpdateScalars divided_by(const std::vector<double>& divisors) const;

  std::vector<UpdateScalar> list() const;

 private:
  using Numbers = std::vector<double>;
  using Tensors = std::vector<at::Tensor>;

  UpdateScalars() = default;
  template <class OnHost, class OnDevice>
  UpdateScalars map(const OnHost& on_host, const OnDevice& on_device) const;
  /// A number for each of the parameters, on the device.
  Tensors repeated(double value) const;

  Numbers host_;
  Tensors device_;  ///< float64, 0-d; empty: `host_`
};

/// 1 - beta ^ step: the bias corrections of moving averages.
UpdateScalars bias_corrections(const UpdateScalars& steps, double beta);

/// Adam's, for each of several parameters.
struct AdamCorrections {
  /// `step_counts`: 0-d tensors on one device.
  AdamCorrections(const std::vector<at::Tensor>& step_counts, const std::vector<double>& betas,
                  double lr);

  std::vector<UpdateScalar> steps;  ///< -lr / (1 - beta1 ^ step)
  std::vector<UpdateScalar> roots;  ///< sqrt(1 - beta2 ^ step)
};

}  // namespace accel
