#include "runner/optim/clip.h"

#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <vector>

#include "kernels/norm.h"

namespace accel {
namespace {

std::vector<at::Tensor> gradients(std::span<const NamedTensor> parameters) {
  std::vector<at::Tensor> all;
  all.reserve(parameters.size());
  for (const NamedTensor& parameter : parameters) {
    if (parameter.tensor.grad().defined()) all.push_back(parameter.tensor.grad());
  }
  return all;
}

at::Tensor norm_of(const std::vector<at::Tensor>& gradients) {
  if (gradients.empty()) return at::zeros({}, at::kFloat);
  return norm_of_all(gradients);
}

}  // namespace

at::Tensor gradient_norm(std::span<const NamedTensor> parameters) {
  const c10::NoGradGuard no_grad;
  return norm_of(gradients(parameters));
}

at::Tensor clip_grad_norm_(std::span<const NamedTensor> parameters, double max_norm) {
  const c10::NoGradGuard no_grad;
  const std::vector<at::Tensor> all = gradients(parameters);
  const at::Tensor norm = norm_of(all);
  // Multiplying by 1 is cheaper than asking the device whether it is needed.
  if (!all.empty()) {
    at::_foreach_mul_(all, norm.add(1e-6).reciprocal().mul(max_norm).clamp_max(1.0));
  }
  return norm;
}

void clip_grad_value_(std::span<const NamedTensor> parameters, double limit) {
  const c10::NoGradGuard no_grad;
  const std::vector<at::Tensor> all = gradients(parameters);
  if (all.empty()) return;
  at::_foreach_clamp_min_(all, -limit);
  at::_foreach_clamp_max_(all, limit);
}

std::optional<std::string> first_non_finite(std::span<const NamedTensor> tensors) {
  for (const NamedTensor& named : tensors) {
    if (!at::isfinite(named.tensor).all().item<bool>()) return named.name;
  }
  return std::nullopt;
}

std::optional<std::string> first_non_finite_gradient(std::span<const NamedTensor> parameters) {
  for (const NamedTensor& named : parameters) {
    const at::Tensor& gradient = named.tensor.grad();
    if (gradient.defined() && !at::isfinite(gradient).all().item<bool>()) return named.name;
  }
  return std::nullopt;
}

}  // namespace accel
