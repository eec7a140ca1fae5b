// Convolutions as matrix products of one image at a time (im2col), whose columns stay in the cache.
#pragma once

#include <array>
#include <optional>
#include <tuple>

#include "core/api/batch.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/measured_cpu.h"

namespace accel {

/// Whether these products are faster than oneDNN's loops, which take channels in blocks of 8 (AVX2)
/// or 16 (AVX-512) and one pixel per step: other numbers of channels, wider steps, and 1x1 windows
/// (bench/kernel_speed.cpp). False on unmeasured processors.
bool is_faster_by_image(const ImageWindows& windows, int64_t out_channels, ConvolutionPass pass,
                        MeasuredCpu cpu = measured_cpu());

// Images are contiguous float32 of [batch, channels, height, width]. Threads share the images of a
// batch; the bits do not depend on their number.

/// weight [out, channels, window height, window width], bias [out] or undefined; returns [batch,
/// out, height, width].
at::Tensor convolve_by_image(const at::Tensor& x, const at::Tensor& weight,
                             const std::optional<at::Tensor>& bias, const ImageWindows& windows);

/// The required gradients of x, weight and bias; the others are undefined.
std::tuple<at::Tensor, at::Tensor, at::Tensor> convolve_by_image_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
    const ImageWindows& windows, std::array<bool, 3> required);

}  // namespace accel
