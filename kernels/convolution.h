// Convolutions of images as products of matrices, where that is faster than ATen's.
#pragma once

#include <array>
#include <optional>
#include <tuple>

#include "core/batch.h"

namespace accel {

/// What at::convolution and its gradient take besides tensors.
struct ConvolutionCall {
  at::IntArrayRef stride, padding, dilation;
  bool transposed = false;
  at::IntArrayRef output_padding = {};
  int64_t groups = 1;
  std::array<bool, 3> gradients = {};  ///< those wanted, of x, weight and bias
};

/// Whether it is computed by products of matrices: contiguous float32 images (and bfloat16
/// where the processor has products of these), no groups, no dilation, and so few windows that
/// ATen's way, which rearranges all weights first, takes longer.
bool convolves_by_products(const at::Tensor& x, const at::Tensor& weight,
                           const ConvolutionCall& call);

/// x [batch, in, height, width], weight [out, in, window height, window width], bias [out] or
/// undefined, to [batch, out, height, width]. Wants convolves_by_products(). Reference:
/// at::convolution, within 1e-5 of the sum of the absolute products.
at::Tensor convolve_by_products(const at::Tensor& x, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias, const ConvolutionCall& call);

using ConvolutionGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// Those gradients that are wanted. Reference: at::convolution_backward, as near.
ConvolutionGradients convolve_by_products_backward(const at::Tensor& dy, const at::Tensor& x,
                                                   const at::Tensor& weight,
                                                   const ConvolutionCall& call);

}  // namespace accel
