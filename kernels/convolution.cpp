#include "kernels/convolution.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "kernels/choice.h"
#include "kernels/cpu/loops.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/upcast.h"
#include "kernels/memory/gradient_memory.h"
#include "kernels/winograd.h"

namespace accel {
namespace {

// Minimum of weights per output position, measured on Xeons for 1x1 and 3x3 windows of 64 to 2048
// channels. ATen's reordering of weights takes a time that does not depend on the images.
constexpr int64_t kWeightsForWindow = 4096;

ImageWindows windows_of(const at::Tensor& x, const at::Tensor& weight,
                        const ConvolutionCall& call) {
  ImageWindows windows = {};
  windows.channels = x.size(1);
  for (int i = 0; i < 2; ++i) {
    windows.in[i] = x.size(2 + i);
    windows.window[i] = weight.size(2 + i);
    windows.stride[i] = call.stride[call.stride.size() == 1 ? 0 : i];
    windows.padding[i] = call.padding[call.padding.size() == 1 ? 0 : i];
    windows.out[i] =
        (windows.in[i] + 2 * windows.padding[i] - windows.window[i]) / windows.stride[i] + 1;
  }
  return windows;
}

bool is_plain(const at::Tensor& tensor) {
  const auto type = tensor.scalar_type();
  return tensor.is_cpu() && tensor.dim() == 4 && tensor.is_contiguous() && tensor.numel() > 0 &&
         (type == at::kFloat || (type == at::kBFloat16 && !upcasts(type)));
}

/// columns_of() for contiguous images of elements as wide as Number.
template <typename Number>
void gather(const at::Tensor& x, const ImageWindows& windows, const at::Tensor& columns) {
  const auto* from = static_cast<const Number*>(x.const_data_ptr());
  auto* to = static_cast<Number*>(columns.mutable_data_ptr());
  const int64_t size = windows.positions() * windows.numbers();
  for_each_part(x.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      gather_windows_cpu(from + i * windows.image(), windows, to + i * size);
    }
  });
}

/// [batch * positions, numbers]
at::Tensor columns_of(const at::Tensor& x, const ImageWindows& windows) {
  at::Tensor columns = at::empty({x.size(0) * windows.positions(), windows.numbers()}, x.options());
  if (fakes_fused()) return columns;
  x.scalar_type() == at::kFloat ? gather<float>(x, windows, columns)
                                : gather<uint16_t>(x, windows, columns);
  return columns;
}

/// The inverse of columns_of() for gradients: sums in float32.
at::Tensor images_of(const at::Tensor& narrow_columns, const at::Tensor& x,
                     const ImageWindows& windows) {
  const int64_t size = windows.positions() * windows.numbers();
  const at::Tensor columns = upcast(narrow_columns);
  const at::Tensor images = at::zeros_like(x, columns.options());
  if (fakes_fused()) return downcast(images, x.scalar_type());
  const float* from = columns.const_data_ptr<float>();
  float* to = images.mutable_data_ptr<float>();
  for_each_part(x.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      scatter_windows_cpu(from + i * size, windows, to + i * windows.image());
    }
  });
  return downcast(images, x.scalar_type());
}

at::Tensor weight_gradient(const at::Tensor& slopes, const at::Tensor& columns,
                           const at::Tensor& weight) {
  // at::mm() computes 16-bit products in float32 where that is faster.
  if (weight.scalar_type() != at::kFloat) return at::mm(slopes, columns).view(weight.sizes());
  const at::Tensor gradient = gradient_memory(weight);
  at::Tensor rows = gradient.view({weight.size(0), -1});
  at::mm_out(rows, slopes, columns);
  return gradient;
}

bool has_few_windows(const at::Tensor& x, const at::Tensor& weight, const ImageWindows& windows) {
  return weight.numel() >= kWeightsForWindow * x.size(0) * windows.positions();
}

enum class ConvolutionAlgorithm { kAten, kIm2col, kIm2colByImage, kWinograd };

ConvolutionAlgorithm algorithm_of(const at::Tensor& x, const at::Tensor& weight,
                                  const ImageWindows& windows, ConvolutionPass pass) {
  if (has_few_windows(x, weight, windows)) return ConvolutionAlgorithm::kIm2col;
  if (x.scalar_type() != at::kFloat) return ConvolutionAlgorithm::kAten;
  if (is_faster_by_winograd(windows, x.size(0), weight.size(0), pass)) {
    return ConvolutionAlgorithm::kWinograd;
  }
  return is_faster_by_image(windows, weight.size(0), pass) ? ConvolutionAlgorithm::kIm2colByImage
                                                           : ConvolutionAlgorithm::kAten;
}

}  // namespace

bool convolves_by_products(const at::Tensor& x, const at::Tensor& weight,
                           const ConvolutionCall& call, ConvolutionPass pass) {
  if (!is_plain(x) || !is_plain(weight) || x.scalar_type() != weight.scalar_type()) return false;
  if (call.transposed || call.groups != 1) return false;
  const auto is_one = [](int64_t dilation) { return dilation == 1; };
  if (!std::all_of(call.dilation.begin(), call.dilation.end(), is_one)) return false;
  const ImageWindows windows = windows_of(x, weight, call);
  if (windows.channels != weight.size(1) || windows.out[0] < 1 || windows.out[1] < 1) return false;
  return algorithm_of(x, weight, windows, pass) != ConvolutionAlgorithm::kAten;
}

at::Tensor convolve_by_products(const at::Tensor& x, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias,
                                const ConvolutionCall& call) {
  const ImageWindows windows = windows_of(x, weight, call);
  const auto algorithm = algorithm_of(x, weight, windows, ConvolutionPass::kForward);
  if (algorithm == ConvolutionAlgorithm::kWinograd) {
    return convolve_by_winograd(x, weight, bias, windows);
  }
  if (algorithm == ConvolutionAlgorithm::kIm2colByImage) {
    return convolve_by_image(x, weight, bias, windows);
  }
  const int64_t out = weight.size(0);
  // [out, batch * positions]
  at::Tensor y = at::mm(weight.view({out, -1}), columns_of(x, windows).t());
  if (bias && bias->defined()) y.add_(bias->unsqueeze(1));
  return y.view({out, x.size(0), windows.positions()})
      .transpose(0, 1)
      .contiguous()
      .view({x.size(0), out, windows.out[0], windows.out[1]});
}

ConvolutionGradients convolve_by_products_backward(const at::Tensor& dy, const at::Tensor& x,
                                                   const at::Tensor& weight,
                                                   const ConvolutionCall& call) {
  const ImageWindows windows = windows_of(x, weight, call);
  const auto algorithm = algorithm_of(x, weight, windows, ConvolutionPass::kBackward);
  if (algorithm == ConvolutionAlgorithm::kWinograd) {
    return convolve_by_winograd_backward(dy, x, weight, windows, call.gradients);
  }
  if (algorithm == ConvolutionAlgorithm::kIm2colByImage) {
    return convolve_by_image_backward(dy, x, weight, windows, call.gradients);
  }
  const int64_t out = weight.size(0);
  const at::Tensor slopes = dy.reshape({x.size(0), out, -1}).transpose(0, 1).reshape({out, -1});
  at::Tensor dx, dweight, dbias;
  if (call.gradients[0]) dx = images_of(at::mm(slopes.t(), weight.view({out, -1})), x, windows);
  if (call.gradients[1]) dweight = weight_gradient(slopes, columns_of(x, windows), weight);
  if (call.gradients[2]) dbias = slopes.sum(1);
  return {dx, dweight, dbias};
}

}  // namespace accel
