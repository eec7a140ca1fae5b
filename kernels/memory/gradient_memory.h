// Memory that gradients of parameters are computed in.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

namespace accel {

/// Offers memory for gradients of parameters, such as views of communication buckets (torch's
/// gradient_as_bucket_view), to gradient_memory() of all threads. Each offer is taken once:
/// later gradients of the parameter, of further passes or of tied weights, are allocated.
class GradientMemory {
 public:
  GradientMemory() = default;
  ~GradientMemory() { withdraw(); }
  GradientMemory(const GradientMemory&) = delete;
  GradientMemory& operator=(const GradientMemory&) = delete;

  /// `memory`: contiguous, of as many elements as the contiguous parameter, of its type, and
  /// overwritten from here on. Replaces an offer for the same parameter.
  void offer(const at::Tensor& parameter, const at::Tensor& memory);
  /// Withdraws what was not taken.
  void withdraw();

 private:
  /// Storages of parameters and offsets in them.
  std::vector<std::pair<const c10::StorageImpl*, int64_t>> offered_;
};

/// Uninitialized, of the sizes and type of `weight`, contiguous: what is offered for a parameter of
/// which `weight` is all elements in order, or new memory. For the gradient, and nothing else.
at::Tensor gradient_memory(const at::Tensor& weight);

/// In a backward pass: what is offered for the parameter of which a * b is the gradient, that of a
/// linear layer's weight [out, in]. Undefined: nothing, or another product.
at::Tensor gradient_memory_of_product(const at::Tensor& a, const at::Tensor& b);

}  // namespace accel
