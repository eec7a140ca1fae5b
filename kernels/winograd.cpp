#include "kernels/winograd.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>

#include "kernels/choice.h"
#include "kernels/cpu/matrix_product.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/winograd.h"
#include "kernels/memory/gradient_memory.h"

namespace accel {
namespace {

// Tiles of a chunk. Transformed, they fit into an L2 cache of 1 MiB for 64 channels.
constexpr int64_t kTilesOfChunk = 96;
constexpr int64_t kLeastChannels = 16;
// Cost of the weights' transform, in tiles.
constexpr int64_t kTilesForWeights = 64;

int64_t numbers_of_tile(int64_t outputs) {
  return (outputs + 2) * (outputs + 2);
}

/// Numbers per pair of channels that a convolution with results of `size` multiplies, and as many
/// as its transform of weights takes.
int64_t winograd_work(int64_t outputs, int64_t batch, const int64_t (&size)[2]) {
  const int64_t rows = (size[0] + outputs - 1) / outputs;
  const int64_t columns = (size[1] + outputs - 1) / outputs;
  return numbers_of_tile(outputs) * (batch * rows * columns + kTilesForWeights);
}

/// Outputs per row and column of a tile: 2 or 4.
int64_t outputs_of_tile(int64_t batch, const int64_t (&size)[2]) {
  return winograd_work(4, batch, size) < winograd_work(2, batch, size) ? 4 : 2;
}

int64_t least_work(int64_t batch, const int64_t (&size)[2]) {
  return winograd_work(outputs_of_tile(batch, size), batch, size);
}

/// Floats between matrices of at least this size: an odd number of cache lines, so that equal
/// elements of all matrices go to different sets of a cache.
int64_t winograd_step(int64_t rows, int64_t channels) {
  return (rows * whole_blocks(channels) / kWinogradBlock | 1) * kWinogradBlock;
}

int64_t blocks_of(const WinogradImages& images) {
  return whole_blocks(images.channels) / kWinogradBlock;
}

/// The rows of tiles of a batch, in chunks.
struct WinogradTiling {
  int64_t outputs;
  WinogradImages in, out;
  int64_t rows;   ///< of all images
  int64_t chunk;  ///< rows of a chunk

  WinogradTiling(const WinogradImages& from, const WinogradImages& to, int64_t batch)
      : outputs(outputs_of_tile(batch, to.size)), in(from), out(to) {
    for (int i = 0; i < 2; ++i) in.tiles[i] = out.tiles[i] = (out.size[i] + outputs - 1) / outputs;
    rows = batch * in.tiles[0];
    chunk = std::clamp<int64_t>(kTilesOfChunk / in.tiles[1], 1, rows);
  }

  int64_t numbers() const { return numbers_of_tile(outputs); }
  int64_t chunks() const { return (rows + chunk - 1) / chunk; }
  int64_t tiles(int64_t index) const { return std::min(chunk, rows - index * chunk) * in.tiles[1]; }
  int64_t step(const WinogradImages& images) const {
    return winograd_step(chunk * images.tiles[1], images.channels);
  }
};

/// Transformed tiles of as many chunks as there are threads.
class WinogradGroup {
 public:
  WinogradGroup(const WinogradTiling& tiling, const at::Tensor& like)
      : tiling_(tiling), most_(std::min<int64_t>(at::get_num_threads(), tiling.chunks())) {
    const auto scratch = [&](const WinogradImages& images) {
      return winograd_scratch(tiling.outputs, images, std::min(tiling.chunk, images.tiles[0]));
    };
    scratch_size_ = std::max(scratch(tiling.in), scratch(tiling.out));
    in_size_ = tiling.numbers() * tiling.step(tiling.in);
    size_ = in_size_ + tiling.numbers() * tiling.step(tiling.out);
    scratch_ = at::empty({at::get_num_threads(), scratch_size_}, like.options());
    numbers_ = at::empty({most_, size_}, like.options());
  }

  /// Calls `work(group)` for each group of chunks.
  template <typename Work>
  void for_each(const Work& work) {
    for (first_ = 0; first_ < tiling_.chunks(); first_ += most_) {
      count_ = std::min(most_, tiling_.chunks() - first_);
      work();
    }
  }

  int64_t count() const { return count_; }
  int64_t first() const { return first_; }
  float* in(int64_t chunk) const { return numbers_.mutable_data_ptr<float>() + chunk * size_; }
  float* out(int64_t chunk) const { return in(chunk) + in_size_; }

  /// Calls `transform(rows, image)` with the offset of the image, for all rows and channels of the
  /// group. Threads share chunks and blocks of channels.
  template <typename Transform>
  void transform_inputs(const Transform& transform) const {
    for_each_block(tiling_.in, 0, transform);
  }
  template <typename Transform>
  void transform_outputs(const Transform& transform) const {
    for_each_block(tiling_.out, in_size_, transform);
  }

 private:
  template <typename Transform>
  void for_each_block(const WinogradImages& images, int64_t offset,
                      const Transform& transform) const {
    const int64_t blocks = blocks_of(images);
    for_each_part(count_ * blocks, 1, [&](int64_t begin, int64_t end) {
      float* const scratch =
          scratch_.mutable_data_ptr<float>() + at::get_thread_num() * scratch_size_;
      for (int64_t i = begin; i < end; ++i) {
        WinogradRows rows = {tiling_.outputs,
                             images,
                             i % blocks * kWinogradBlock,
                             0,
                             0,
                             scratch,
                             in(i / blocks) + offset,
                             tiling_.step(images)};
        for_each_image(rows, first_ + i / blocks, transform);
      }
    });
  }

  /// A chunk's rows of each image.
  template <typename Transform>
  void for_each_image(WinogradRows& rows, int64_t chunk, const Transform& transform) const {
    const WinogradImages& images = rows.images;
    const int64_t height = images.tiles[0], width = images.tiles[1];
    const int64_t end = std::min((chunk + 1) * tiling_.chunk, tiling_.rows);
    for (int64_t row = chunk * tiling_.chunk; row < end; row += rows.end - rows.begin) {
      rows.begin = row % height;
      rows.end = std::min(height, rows.begin + end - row);
      transform(rows, row / height * images.channels * images.size[0] * images.size[1]);
      rows.numbers += (rows.end - rows.begin) * width * whole_blocks(images.channels);
    }
  }

  const WinogradTiling& tiling_;
  int64_t most_, scratch_size_, in_size_, size_, first_ = 0, count_ = 0;
  at::Tensor scratch_, numbers_;
};

/// The weights [out, in, 3, 3] as matrices [in, out] of a convolution of images, or [out, in] of
/// the convolution of output gradients with flipped windows, which is the gradient of the images.
WinogradWeights winograd_weights_of(const WinogradTiling& tiling, const at::Tensor& weight,
                                    bool of_output_gradients) {
  const int64_t out = weight.size(0), in = weight.size(1), row = weight.stride(0),
                column = weight.stride(1);
  if (of_output_gradients) return {tiling.outputs, in, row, column, true, winograd_step(out, in)};
  return {tiling.outputs, out, column, row, false, winograd_step(in, out)};
}

at::Tensor transformed_weights(const WinogradTiling& tiling, const WinogradWeights& of,
                               const at::Tensor& weight) {
  const at::Tensor numbers = at::empty({tiling.numbers(), of.step}, weight.options());
  if (fakes_fused()) return numbers;
  const auto* const from = weight.const_data_ptr<float>();
  auto* const to = numbers.mutable_data_ptr<float>();
  for_each_part(tiling.in.channels, kWinogradBlock, [&](int64_t begin, int64_t end) {
    winograd_weights_cpu(of, from, begin, end, to);
  });
  return numbers;
}

/// The convolution of `x`, images or output gradients, with weights [in, out] of `of`. `bias`:
/// [out] or undefined.
at::Tensor convolve_tiles(const WinogradTiling& tiling, const WinogradWeights& of,
                          const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias) {
  const WinogradImages &in = tiling.in, &out = tiling.out;
  const at::Tensor y = at::empty({x.size(0), out.channels, out.size[0], out.size[1]}, x.options());
  const at::Tensor weights = transformed_weights(tiling, of, weight);
  WinogradGroup group(tiling, x);
  if (fakes_fused()) return y;
  const auto *from = x.const_data_ptr<float>(), *by = weights.const_data_ptr<float>();
  const float* const added = bias.defined() ? bias.const_data_ptr<float>() : nullptr;
  auto* const to = y.mutable_data_ptr<float>();
  group.for_each([&] {
    group.transform_inputs(
        [&](const WinogradRows& rows, int64_t image) { winograd_inputs_cpu(rows, from + image); });
    for_each_part(tiling.numbers() * group.count(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t number = i / group.count(), chunk = i % group.count();
        const int64_t tiles = tiling.tiles(group.first() + chunk);
        matrix_product({group.in(chunk) + number * tiling.step(in), whole_blocks(in.channels)},
                       {by + number * of.step, whole_blocks(out.channels)},
                       {tiles, out.channels, in.channels},
                       {group.out(chunk) + number * tiling.step(out), whole_blocks(out.channels)});
      }
    });
    group.transform_outputs([&](const WinogradRows& rows, int64_t image) {
      winograd_outputs_cpu(rows, added, to + image);
    });
  });
  return y;
}

/// Writes the gradient of the weights, of which `of` are matrices [out, in].
void weight_gradient_of_tiles(const WinogradTiling& tiling, const WinogradWeights& of,
                              const at::Tensor& x, const at::Tensor& dy,
                              const at::Tensor& dweight) {
  const WinogradImages &in = tiling.in, &out = tiling.out;
  const at::Tensor sums = at::empty({tiling.numbers(), of.step}, x.options());
  WinogradGroup group(tiling, x);
  if (fakes_fused()) return;
  const auto *from = x.const_data_ptr<float>(), *gradients = dy.const_data_ptr<float>();
  auto* const sum = sums.mutable_data_ptr<float>();
  group.for_each([&] {
    group.transform_inputs(
        [&](const WinogradRows& rows, int64_t image) { winograd_inputs_cpu(rows, from + image); });
    group.transform_outputs([&](const WinogradRows& rows, int64_t image) {
      winograd_output_gradients_cpu(rows, gradients + image);
    });
    // Chunks are added in order.
    for_each_part(tiling.numbers(), 1, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin * group.count(); i < end * group.count(); ++i) {
        const int64_t number = i / group.count(), chunk = i % group.count();
        const bool is_first = group.first() + chunk == 0;
        matrix_product(
            {group.out(chunk) + number * tiling.step(out), whole_blocks(out.channels), true},
            {group.in(chunk) + number * tiling.step(in), whole_blocks(in.channels)},
            {out.channels, in.channels, tiling.tiles(group.first() + chunk)},
            {sum + number * of.step, whole_blocks(in.channels), !is_first});
      }
    });
  });
  auto* const to = dweight.mutable_data_ptr<float>();
  for_each_part(out.channels, kWinogradBlock, [&](int64_t begin, int64_t end) {
    winograd_weight_gradients_cpu(of, sum, begin, end, to);
  });
}

WinogradImages winograd_images(const ImageWindows& windows) {
  return {windows.channels,
          {windows.in[0], windows.in[1]},
          {windows.padding[0], windows.padding[1]},
          {}};
}

/// The outputs, with the padding of the convolution of their gradients.
WinogradImages winograd_outputs(const ImageWindows& windows, int64_t channels) {
  return {channels,
          {windows.out[0], windows.out[1]},
          {2 - windows.padding[0], 2 - windows.padding[1]},
          {}};
}

}  // namespace

bool is_faster_by_winograd(const ImageWindows& windows, int64_t batch, int64_t out_channels,
                           ConvolutionPass pass, MeasuredCpu cpu) {
  if (cpu == MeasuredCpu::kUnmeasured) return false;
  for (int i = 0; i < 2; ++i) {
    if (windows.window[i] != 3 || windows.stride[i] != 1 || windows.padding[i] > 2) return false;
  }
  if (std::min(windows.channels, out_channels) < kLeastChannels) return false;
  const int64_t direct = batch * windows.positions() * 9;
  const int64_t forward = least_work(batch, windows.out);
  // The gradients of the weights, then of the images.
  const bool is_backward = pass == ConvolutionPass::kBackward;
  const int64_t work = is_backward ? (forward + least_work(batch, windows.in)) / 2 : forward;
  return 10 * work <= 9 * direct;
}

at::Tensor convolve_by_winograd(const at::Tensor& x, const at::Tensor& weight,
                                const std::optional<at::Tensor>& bias,
                                const ImageWindows& windows) {
  const WinogradTiling tiling(winograd_images(windows), winograd_outputs(windows, weight.size(0)),
                              x.size(0));
  return convolve_tiles(tiling, winograd_weights_of(tiling, weight, false), x, weight,
                        bias && bias->defined() ? bias->contiguous() : at::Tensor());
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> convolve_by_winograd_backward(
    const at::Tensor& dy, const at::Tensor& x, const at::Tensor& weight,
    const ImageWindows& windows, std::array<bool, 3> required) {
  const at::Tensor gradients = dy.contiguous();
  const WinogradImages in = winograd_images(windows),
                       out = winograd_outputs(windows, weight.size(0));
  at::Tensor dx, dweight;
  if (required[0]) {
    const WinogradTiling tiling(out, in, x.size(0));
    dx = convolve_tiles(tiling, winograd_weights_of(tiling, weight, true), gradients, weight, {});
  }
  if (required[1]) {
    const WinogradTiling tiling(in, out, x.size(0));
    dweight = gradient_memory(weight);
    weight_gradient_of_tiles(tiling, winograd_weights_of(tiling, weight, true), x, gradients,
                             dweight);
  }
  return {dx, dweight, required[2] ? gradients.sum({0, 2, 3}) : at::Tensor()};
}

}  // namespace accel
