#include "parallel/gradients.h"

#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

#include <utility>
#include <vector>

#include "kernels/norm.h"
#include "parallel/row_share.h"

namespace accel {
namespace {

/// The defined gradients. One list per thread, whose memory is reused.
class DefinedGradients {
 public:
  explicit DefinedGradients(std::span<const Parameter> parameters) {
    for (const Parameter& parameter : parameters) {
      if (parameter.local.grad().defined()) list_.push_back(parameter.local.grad());
    }
  }
  ~DefinedGradients() { list_.clear(); }
  DefinedGradients(const DefinedGradients&) = delete;
  DefinedGradients& operator=(const DefinedGradients&) = delete;

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

at::Tensor gradient_norm(std::span<const Parameter> parameters) {
  const c10::NoGradGuard no_grad;
  return norm_of(DefinedGradients(parameters).list());
}

std::vector<at::Tensor> rows_by_rank(const at::Tensor& tensor, int64_t ranks) {
  const at::Tensor rows = tensor.dim() == 0 ? tensor.view({1}) : tensor;
  std::vector<at::Tensor> shares;
  for (int64_t rank = 0; rank < ranks; ++rank) {
    const RowShare share = row_share(rows.size(0), ranks, rank);
    shares.push_back(rows.narrow(0, share.first, share.count));
  }
  return shares;
}

at::Tensor gradient_norm_by_rows(std::span<const Parameter> parameters, int64_t ranks) {
  const c10::NoGradGuard no_grad;
  const DefinedGradients gradients(parameters);
  std::vector<at::Tensor> rows;
  for (const at::Tensor& gradient : gradients.list()) {
    for (at::Tensor& share : rows_by_rank(gradient, ranks)) rows.push_back(std::move(share));
  }
  if (rows.empty()) return at::zeros({}, at::kFloat);
  return norm_of_squares(squared_norms(rows).view({-1, ranks}));
}

at::Tensor norm_of_squares(const at::Tensor& squares) {
  return squares.flatten().sum().sqrt().to(at::kFloat);
}

void scale_to_norm(std::span<const Parameter> parameters, const at::Tensor& norm, double max_norm) {
  const c10::NoGradGuard no_grad;
  const DefinedGradients gradients(parameters);
  if (gradients.list().empty()) return;
  // Multiplying by 1 is cheaper than synchronizing with the device to skip it.
  at::_foreach_mul_(gradients.list(), norm.add(1e-6).reciprocal().mul(max_norm).clamp_max(1.0));
}

void clip_grad_value(std::span<const Parameter> parameters, double limit) {
  const c10::NoGradGuard no_grad;
  const DefinedGradients gradients(parameters);
  const std::vector<at::Tensor>& all = gradients.list();
  if (all.empty()) return;
  at::_foreach_clamp_min_(all, -limit);
  at::_foreach_clamp_max_(all, limit);
}

std::optional<std::string> first_non_finite_gradient(std::span<const Parameter> parameters) {
  for (const Parameter& named : parameters) {
    const at::Tensor& gradient = named.local.grad();
    if (gradient.defined() && !at::isfinite(gradient).all().item<bool>()) return named.name;
  }
  return std::nullopt;
}

}  // namespace accel
