#include "kernels/convolution_by_image.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/sum.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>

#include "kernels/choice.h"
#include "kernels/cpu/matrix_product.h"
#include "kernels/cpu/parallel.h"
#include "kernels/memory/gradient_memory.h"

namespace accel {
namespace {

// Columns of a product: half of an L2 cache of 512 KiB.
constexpr int64_t kMostColumns = int64_t{1} << 16;
// Gradients of a weight that threads add up one by one.
constexpr int64_t kMostSums = int64_t{1} << 22, kMostParts = 16;
constexpr int64_t kLeastPositions = 16;

bool has_window(const ImageWindows& windows, int64_t size, int64_t stride) {
  return windows.window[0] == size && windows.window[1] == size && windows.stride[0] == stride &&
         windows.stride[1] == stride && windows.padding[0] == 0 && windows.padding[1] == 0;
}

/// Whether the columns are the image.
bool is_image(const ImageWindows& windows) {
  return has_window(windows, 1, 1);
}

int64_t rows_of_chunk(const ImageWindows& windows) {
  if (is_image(windows)) return windows.out[0];
  const int64_t fitting = kMostColumns / (windows.numbers() * windows.out[1]);
  return std::clamp<int64_t>(fitting, 1, windows.out[0]);
}

/// Columns of one chunk for each thread.
class Scratch {
 public:
  Scratch(const ImageWindows& windows, const at::Tensor& like)
      : size_(is_image(windows) ? 0 : windows.numbers() * rows_of_chunk(windows) * windows.out[1]),
        columns_(at::empty({at::get_num_threads(), size_}, like.options())) {}

  float* of_thread() const {
    return columns_.mutable_data_ptr<float>() + at::get_thread_num() * size_;
  }

 private:
  int64_t size_;
  at::Tensor columns_;
};

/// One image of a convolution.
struct OneImage {
  const ImageWindows& windows;
  int64_t out;
  const float *x, *weight;

  /// Calls `work(rows)` for the rows of each chunk.
  template <typename Work>
  void for_each_chunk(const Work& work) const {
    const int64_t step = rows_of_chunk(windows);
    for (int64_t first = 0; first < windows.out[0]; first += step) {
      work(WindowRows{first, std::min(first + step, windows.out[0])});
    }
  }
  /// The image's columns of these rows, gathered in `scratch`.
  const float* columns_of(WindowRows rows, float* scratch) const {
    if (is_image(windows)) return x;
    gather_rows_cpu(x, windows, rows, scratch);
    return scratch;
  }
  int64_t positions(WindowRows rows) const { return (rows.end - rows.begin) * windows.out[1]; }

  void forward(const float* bias, float* scratch, float* y) const {
    const int64_t all = windows.positions();
    for (int64_t i = 0; bias != nullptr && i < out; ++i) std::fill_n(y + i * all, all, bias[i]);
    for_each_chunk([&](WindowRows rows) {
      matrix_product({weight, windows.numbers()}, {columns_of(rows, scratch), positions(rows)},
                     {out, positions(rows), windows.numbers()},
                     {y + rows.begin * windows.out[1], all, bias != nullptr});
    });
  }

  /// Adds to the weight's gradient `sums` unless it is the first addend.
  void weight_gradient(const float* dy, float* scratch, float* sums, bool is_first) const {
    for_each_chunk([&](WindowRows rows) {
      matrix_product({dy + rows.begin * windows.out[1], windows.positions()},
                     {columns_of(rows, scratch), positions(rows), true},
                     {out, windows.numbers(), positions(rows)},
                     {sums, windows.numbers(), !is_first || rows.begin > 0});
    });
  }

  /// `dx` is zero unless the columns are the image.
  void image_gradient(const float* dy, float* scratch, float* dx) const {
    for_each_chunk([&](WindowRows rows) {
      float* const columns = is_image(windows) ? dx : scratch;
      matrix_product({weight, windows.numbers(), true},
                     {dy + rows.begin * windows.out[1], windows.positions()},
                     {windows.numbers(), positions(rows), out}, {columns, positions(rows)});
      if (!is_image(windows)) scatter_rows_cpu(columns, windows, rows, dx);
    });
  }
};

bool has_steps(const ImageWindows& windows) {
  return windows.stride[0] > 1 || windows.stride[1] > 1;
}

bool is_patches(const ImageWindows& windows) {
  return has_window(windows, windows.window[0], windows.window[0]);
}

bool is_faster_with_avx2(const ImageWindows& windows, int64_t out_channels, bool is_backward) {
  if (is_image(windows)) return true;
  const int64_t area = windows.window[0] * windows.window[1];
  if (windows.channels % 8 == 0) return is_backward && has_steps(windows);
  if (is_backward && windows.channels == 1) return true;
  if (is_patches(windows)) return out_channels >= 16;
  if (has_steps(windows) || area > 25 || out_channels < 16) return false;
  if (area <= 9 || windows.channels == 1) return true;
  return is_backward && out_channels >= 20;
}

/// Whether oneDNN's loops for AVX-512, which pad channels to multiples of 16, multiply at
/// least 1.25 times as many numbers as the convolution has.
bool is_padded(const ImageWindows& windows, int64_t out_channels) {
  const auto padded = [](int64_t channels) { return (channels + 15) / 16 * 16; };
  return 4 * padded(windows.channels) * padded(out_channels) >= 5 * windows.channels * out_channels;
}

bool is_faster_with_avx512(const ImageWindows& windows, int64_t out_channels, bool is_backward) {
  if (windows.window[0] == 1 && windows.window[1] == 1 && windows.channels >= 16) {
    return is_backward || has_steps(windows);
  }
  if (windows.channels <= 3) {  // a model's inputs: no gradient of the images
    if (is_backward) return out_channels <= 8;
    return windows.channels == 1 || out_channels % 16 != 0 || is_patches(windows);
  }
  const int64_t least_channels = is_backward ? 16 : 10;
  return windows.channels >= least_channels && out_channels >= 16 &&
         is_padded(windows, out_channels);
}

at::Tensor sum_of_rows(const at::Tensor& rows, const at::Tensor& weight) {
  const at::Tensor sum = gradient_memory(weight);
  at::Tensor flat = sum.view({-1});
  at::sum_out(flat, rows, 0);
  return sum;
}

}  // namespace

bool is_faster_by_image(const ImageWindows& windows, int64_t out_channels, ConvolutionPass pass,
                        MeasuredCpu cpu) {
  const bool is_small = out_channels * windows.numbers() <= kMostSums / 2;
  if (!is_small || windows.positions() < kLeastPositions) return false;
  const bool is_backward = pass == ConvolutionPass::kBackward;
  switch (cpu) {
    case MeasuredCpu::kAvx2:
      return is_faster_with_avx2(windows, out_channels, is_backward);
    case MeasuredCpu::kIntelAvx512:
      return is_faster_with_avx512(windows, out_channels, is_backward);
    case MeasuredCpu::kUnmeasured:
      break;
  }
  return false;
}

at::Tensor convolve_by_image(const at::Tensor& x, const at::Tensor& weight,
                             const std::optional<at::Tensor>& bias, const ImageWindows& windows) {
  const int64_t out = weight.size(0), size = out * windows.positions();
  at::Tensor y = at::empty({x.size(0), out, windows.out[0], windows.out[1]}, x.options());
  const Scratch scratch(windows, x);
  if (fakes_fused()) return y;
  const at::Tensor added = bias && bias->defined() ? bias->contiguous() : at::Tensor();
  const float* const add = added.defined() ? added.const_data_ptr<float>() : nullptr;
  const auto *from = x.const_data_ptr<float>(), *by = weight.const_data_ptr<float>();
  auto* const to = y.mutable_data_ptr<float>();
  for_each_part(x.size(0), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const OneImage image = {windows, out, from + i * windows.image(), by};
      image.forward(add, scratch.of_thread(), to + i * size);
    }
  });
  return y;
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolve_by_image_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
    const ImageWindows& windows, std::array<bool, 3> required) {
  const int64_t batch = x.size(0), out = weight.size(0), size = out * windows.positions();
  const at::Tensor slopes = dy.contiguous();
  at::Tensor dx, sums;
  if (required[0]) dx = is_image(windows) ? at::empty_like(x) : at::zeros_like(x);
  const int64_t parts = std::clamp<int64_t>(kMostSums / weight.numel(), 1, kMostParts);
  const int64_t part = (batch + parts - 1) / parts;
  if (required[1]) sums = at::empty({(batch + part - 1) / part, weight.numel()}, x.options());
  const Scratch scratch(windows, x);
  if (!fakes_fused() && (required[0] || required[1])) {
    const auto *from = x.const_data_ptr<float>(), *by = weight.const_data_ptr<float>();
    const auto* const slope = slopes.const_data_ptr<float>();
    for_each_part(batch, part, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const OneImage image = {windows, out, from + i * windows.image(), by};
        float* const columns = scratch.of_thread();
        if (required[1]) {
          float* const to = sums.mutable_data_ptr<float>() + i / part * weight.numel();
          image.weight_gradient(slope + i * size, columns, to, i % part == 0);
        }
        if (required[0]) {
          float* const to = dx.mutable_data_ptr<float>() + i * windows.image();
          image.image_gradient(slope + i * size, columns, to);
        }
      }
    });
  }
  return {dx, required[1] ? sum_of_rows(sums, weight) : at::Tensor(),
          required[2] ? slopes.sum({0, 2, 3}) : at::Tensor()};
}

}  // namespace accel
