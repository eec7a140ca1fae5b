// 3x3 convolutions with stride 1 by Winograd's algorithm, in a quarter to half of the products.
#pragma once

#include <array>
#include <optional>
#include <tuple>

#include "core/api/batch.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/measured_cpu.h"

namespace accel {

/// Whether this algorithm, which transforms all weights in each call, is faster than oneDNN's
/// loops: 3x3 windows with stride 1, at least 16 channels, and enough tiles for the weights
/// (bench/kernel_speed.cpp). False on unmeasured processors.
bool is_faster_by_winograd(const ImageWindows& windows, int64_t batch, int64_t out_channels,
                           ConvolutionPass pass, MeasuredCpu cpu = measured_cpu());

// Images are contiguous float32 of [batch, channels, height, width], weights [out, channels, 3, 3].
// Windows have stride 1 and at most two rows and columns of padding. Threads share the tiles of a
// batch; the bits do not depend on their number.
//
// Reference: at::convolution, within 2e-6 of the largest sum of absolute products. An output's own
// sum is no bound: the pixels of its tile outside its window cancel with rounding, and NaN or an
// infinity spreads to all outputs of the tile.

/// Returns [batch, out, height, width]; bias [out] or undefined.
at::Tensor convolve_by_winograd(const at::Tensor& x, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias, const ImageWindows& windows);

/// The required gradients of x, weight and bias; the others are undefined.
std::tuple<at::Tensor, at::Tensor, at::Tensor> convolve_by_winograd_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
    const ImageWindows& windows, std::array<bool, 3> required);

}  // namespace accel
