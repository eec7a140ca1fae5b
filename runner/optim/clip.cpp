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

/// The gradients that there are, one such list at a time in a thread: its memory is used again.
class Gradients {
 public:
  explicit Gradients(std::span<const NamedTensor> parameters) {
    for (const NamedTensor& parameter : parameters) {
      if (parameter.tensor.grad().defined()) list_.push_back(parameter.tensor.grad());
    }
  }
  ~Gradients() { list_.clear(); }
  Gradients(const Gradients&) = delete;
  Gradients& operator=(const Gradients&) = delete;

  const std::vector<at::Tensor>& list() const { return list_; }

 private:
  static std::vector<at::Tensor>& memory() {
    thread_local std::vector<at::Tensor> tensors;
    return tensors;
  }

  std::vector<at::Tensor>& list_ = memory();
};

at::Tensor norm_of(const std::vector<at::Tensor>& all) {
  if (all.empty()) return at::zeros({}, at::kFloat);
  return norm_of_all(all);
}

}  // namespace

at::Tensor gradient_norm(std::span<const NamedTensor> parameters) {
  const c10::NoGradGuard no_grad;
  return norm_of(Gradients(parameters).list());
}

at::Tensor clip_grad_norm_(std::span<const NamedTensor> parameters, double max_norm) {
  const c10::NoGradGuard no_grad;
  const Gradients gradients(parameters);
  const std::vector<at::Tensor>& all = gradients.list();
  const at::Tensor norm = norm_of(all);
  // Multiplying by 1 is cheaper than asking the device whether it is needed.
  if (!all.empty()) {
    at::_foreach_mul_(all, norm.add(1e-6).reciprocal().mul(max_norm).clamp_max(1.0));
  }
  return norm;
}

void clip_grad_value_(std::span<const NamedTensor> parameters, double limit) {
  const c10::NoGradGuard no_grad;
  const Gradients gradients(parameters);
  const std::vector<at::Tensor>& all = gradients.list();
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
