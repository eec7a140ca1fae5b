// Convolutions of images as matrix products (im2col, Winograd), where these are faster than ATen's.
#pragma once

#include <array>
#include <optional>
#include <tuple>

#include "core/api/batch.h"
#include "kernels/convolution_by_image.h"

namespace accel {

/// Arguments of at::convolution and its gradient besides tensors.
struct ConvolutionCall {
  at::IntArrayRef stride, padding, dilation;
  bool transposed = false;
  at::IntArrayRef output_padding = {};
  int64_t groups = 1;
  std::array<bool, 3> gradients = {};  ///< required gradients: of x, weight and bias
};

/// Whether matrix products are supported and faster in a pass: contiguous float32 images, no
/// groups, no dilation, and either windows of is_faster_by_winograd() or is_faster_by_image(), or
/// so few output positions that ATen's reordering of weights takes longer (also of bfloat16 images
/// on processors with bfloat16 products).
bool convolves_by_products(const at::Tensor& x, const at::Tensor& weight,
                           const ConvolutionCall& call, ConvolutionPass pass);

/// x [batch, in, height, width], weight [out, in, window height, window width], bias [out] or
/// undefined; returns [batch, out, height, width]. Requires convolves_by_products(). Reference:
/// at::convolution, within 1e-5 of the largest sum of the absolute products of an image.
at::Tensor convolve_by_products(const at::Tensor& x, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias, const ConvolutionCall& call);

using ConvolutionGradients = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

/// The required gradients. Reference: at::convolution_backward, with the same accuracy.
ConvolutionGradients convolve_by_products_backward(const at::Tensor& dy, const at::Tensor& x,
                                                   const at::Tensor& weight,
                                                   const ConvolutionCall& call);

}  // namespace accel
