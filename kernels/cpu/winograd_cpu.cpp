#include "kernels/cpu/winograd.h"

#include <algorithm>

#include "core/base/cpu_target.h"
#include "kernels/cpu/registers.h"
#include "kernels/cpu/winograd_transforms.h"

namespace accel {
namespace {

/// Channels of a block of an image.
struct Block {
  int64_t first, count;  ///< channels
  int64_t plane;         ///< pixels of a channel
};

/// Copies pixels [begin, end) of a block's channels to `place(pixel)`, channel by channel.
template <typename Place>
ACCEL_PART_OF_LOOP void gather_block(const float* image, const Block& block, int64_t begin,
                                     int64_t end, Place place) {
  const float* const from = image + block.first * block.plane;
  int64_t pixel = begin;
  if (block.count == kWinogradBlock) {
    for (; pixel + kEdge <= end; pixel += kEdge) {
      float* to[kEdge];
      for (int64_t i = 0; i < kEdge; ++i) to[i] = place();
      for (int64_t half = 0; half < kWinogradBlock; half += kEdge) {
        const float* const corner = from + half * block.plane + pixel;
        transpose(
            [&](int i) __attribute__((always_inline)) { return corner + i * block.plane; },
            [&](int i) __attribute__((always_inline)) { return to[i] + half; });
      }
    }
  }
  for (; pixel < end; ++pixel) {
    float* const to = place();
    for (int64_t c = 0; c < block.count; ++c) to[c] = from[c * block.plane + pixel];
  }
}

/// The inverse for contiguous pixels.
ACCEL_PART_OF_LOOP void scatter_block(const float* pixels, const Block& block, int64_t begin,
                                      int64_t end, float* image) {
  float* const to = image + block.first * block.plane;
  int64_t pixel = begin;
  if (block.count == kWinogradBlock) {
    for (; pixel + kEdge <= end; pixel += kEdge, pixels += kEdge * kWinogradBlock) {
      for (int64_t half = 0; half < kWinogradBlock; half += kEdge) {
        float* const corner = to + half * block.plane + pixel;
        transpose(
            [&](int i)
                __attribute__((always_inline)) { return pixels + i * kWinogradBlock + half; },
            [&](int i) __attribute__((always_inline)) { return corner + i * block.plane; });
      }
    }
  }
  for (; pixel < end; ++pixel, pixels += kWinogradBlock) {
    for (int64_t c = 0; c < block.count; ++c) to[c * block.plane + pixel] = pixels[c];
  }
}

/// Pixels of rows of tiles, of one block of channels: [rows, pitch, kWinogradBlock].
struct PaddedRows {
  int64_t rows, pitch, left;
  int64_t first, begin, end;  ///< row of the image at the top; rows inside the image

  int64_t row() const { return pitch * kWinogradBlock; }
};

/// `size`: rows of a tile; tiles overlap if it is greater than `outputs`.
ACCEL_PART_OF_LOOP PaddedRows padded_rows_of(int64_t outputs, const WinogradImages& images,
                                             int64_t begin, int64_t end, int64_t size) {
  PaddedRows padded = {};
  padded.left = size > outputs ? images.padding[1] : 0;
  padded.rows = (end - begin - 1) * outputs + size;
  padded.pitch = std::max((images.tiles[1] - 1) * outputs + size, padded.left + images.size[1]);
  padded.first = begin * outputs - (size > outputs ? images.padding[0] : 0);
  padded.begin = std::clamp<int64_t>(padded.first, 0, images.size[0]);
  padded.end = std::clamp<int64_t>(padded.first + padded.rows, padded.begin, images.size[0]);
  return padded;
}

ACCEL_PART_OF_LOOP Block block_of(const WinogradRows& rows) {
  const WinogradImages& images = rows.images;
  return {rows.channel, std::min(kWinogradBlock, images.channels - rows.channel),
          images.size[0] * images.size[1]};
}

/// Zeros outside the image, and in the channels behind the last one.
ACCEL_PART_OF_LOOP void clear_padding(const PaddedRows& padded, int64_t width, int64_t channels,
                                      float* pixels) {
  if (channels < kWinogradBlock) {
    std::fill_n(pixels, padded.rows * padded.row(), 0.0F);
    return;
  }
  const int64_t begin = padded.begin - padded.first, end = padded.end - padded.first;
  const int64_t left = padded.left * kWinogradBlock, inside = width * kWinogradBlock;
  std::fill_n(pixels, begin * padded.row(), 0.0F);
  for (int64_t y = begin; y < end; ++y) {
    float* const row = pixels + y * padded.row();
    std::fill_n(row, left, 0.0F);
    std::fill_n(row + left + inside, padded.row() - left - inside, 0.0F);
  }
  std::fill_n(pixels + end * padded.row(), (padded.rows - end) * padded.row(), 0.0F);
}

/// Fills padded rows with a block's pixels.
ACCEL_PART_OF_LOOP void fill_padded_rows(const float* image, const PaddedRows& padded,
                                         int64_t width, const Block& block, float* pixels) {
  clear_padding(padded, width, block.count, pixels);
  int64_t column = 0;
  float* to = pixels + (padded.begin - padded.first) * padded.row() + padded.left * kWinogradBlock;
  const int64_t to_next_row = padded.row() - width * kWinogradBlock;
  gather_block(image, block, padded.begin * width, padded.end * width, [&] {
    float* const found = to;
    to += kWinogradBlock;
    if (++column == width) column = 0, to += to_next_row;
    return found;
  });
}

enum class TransformKind { kInputs, kOutputs, kOutputGradients, kWeights, kWeightGradients };

template <TransformKind kKind, int kOutputs>
struct TransformShape {
  static constexpr int kNumbers = kOutputs + 2;
  static constexpr int kFrom = kKind == TransformKind::kOutputGradients ? kOutputs
                               : kKind == TransformKind::kWeights       ? 3
                                                                        : kNumbers;
  static constexpr int kTo = kKind == TransformKind::kOutputs           ? kOutputs
                             : kKind == TransformKind::kWeightGradients ? 3
                                                                        : kNumbers;

  template <typename Float>
  static ACCEL_PART_OF_LOOP void run(const Float* x, Float* y) {
    using By = WinogradTransform<kOutputs>;
    if constexpr (kKind == TransformKind::kInputs) By::inputs(x, y);
    if constexpr (kKind == TransformKind::kOutputs) By::outputs(x, y);
    if constexpr (kKind == TransformKind::kOutputGradients) By::output_gradients(x, y);
    if constexpr (kKind == TransformKind::kWeights) By::weights(x, y);
    if constexpr (kKind == TransformKind::kWeightGradients) By::weight_gradients(x, y);
  }
};

/// Matrix of blocks of channels: element (i, j) is at `data + i * row + j * column`.
template <typename Number>
struct Tile {
  Number* data;
  int64_t row, column;
};

/// to = T from T^T for the transform T of one dimension, plus `added` of each channel unless null.
template <int kBytes, TransformKind kKind, int kOutputs>
ACCEL_PART_OF_LOOP void transform(const Tile<const float>& from, const Tile<float>& to,
                                  const float* added = nullptr) {
  using Float = typename Register<kBytes>::Float;
  using By = TransformShape<kKind, kOutputs>;
  constexpr int kFrom = By::kFrom, kTo = By::kTo, kWidth = kBytes / sizeof(float);
  for (int64_t lane = 0; lane < kWinogradBlock; lane += kWidth) {
    Float half[kFrom * kTo];
    unrolled<kFrom>([&](int j) __attribute__((always_inline)) {
      Float column[kFrom];
      unrolled<kFrom>([&](int i) __attribute__((always_inline)) {
        load(from.data + i * from.row + j * from.column + lane, column[i]);
      });
      By::run(column, half + j * kTo);
    });
    Float add = {};
    if (added != nullptr) load(added + lane, add);
    unrolled<kTo>([&](int i) __attribute__((always_inline)) {
      Float row[kFrom], out[kTo];
      unrolled<kFrom>([&](int j) __attribute__((always_inline)) { row[j] = half[j * kTo + i]; });
      By::run(row, out);
      unrolled<kTo>([&](int j) __attribute__((always_inline)) {
        if constexpr (kKind == TransformKind::kOutputs) out[j] += add;
        store(out[j], to.data + i * to.row + j * to.column + lane);
      });
    });
  }
}

/// winograd_inputs_cpu() and winograd_output_gradients_cpu().
template <int kBytes, TransformKind kKind, int kOutputs>
ACCEL_PART_OF_LOOP void transform_image(const WinogradRows& rows, const float* image) {
  constexpr int64_t kSize = TransformShape<kKind, kOutputs>::kFrom, kNumbers = kOutputs + 2;
  const WinogradImages& images = rows.images;
  const PaddedRows padded = padded_rows_of(kOutputs, images, rows.begin, rows.end, kSize);
  fill_padded_rows(image, padded, images.size[1], block_of(rows), rows.scratch);
  const int64_t width = whole_blocks(images.channels);
  float* to = rows.numbers + rows.channel;
  for (int64_t y = 0; y < rows.end - rows.begin; ++y) {
    const float* from = rows.scratch + y * kOutputs * padded.row();
    for (int64_t x = 0; x < images.tiles[1]; ++x, to += width, from += kOutputs * kWinogradBlock) {
      transform<kBytes, kKind, kOutputs>({from, padded.row(), kWinogradBlock},
                                         {to, kNumbers * rows.step, rows.step});
    }
  }
}

/// Number of a tile's rows or columns inside the image.
ACCEL_PART_OF_LOOP int64_t inside(int64_t outputs, int64_t tile, int64_t size) {
  return std::min(outputs, size - tile * outputs);
}

/// One row of tiles to contiguous pixels [rows, columns, kWinogradBlock]. `y`: the tile's row.
template <int kBytes, int kOutputs>
ACCEL_PART_OF_LOOP void outputs_of_row(const WinogradImages& images, Tile<const float> from,
                                       int64_t y, const float* added, float* pixels) {
  const int64_t row = images.size[1] * kWinogradBlock, width = whole_blocks(images.channels);
  const int64_t count = inside(kOutputs, y, images.size[0]);
  for (int64_t x = 0; x < images.tiles[1]; ++x, from.data += width) {
    float* const to = pixels + x * kOutputs * kWinogradBlock;
    const int64_t columns = inside(kOutputs, x, images.size[1]);
    const bool is_whole = count == kOutputs && columns == kOutputs;
    float tile[kOutputs * kOutputs * kWinogradBlock];
    const int64_t tile_row = is_whole ? row : kOutputs * kWinogradBlock;
    transform<kBytes, TransformKind::kOutputs, kOutputs>(
        from, {is_whole ? to : tile, tile_row, kWinogradBlock}, added);
    for (int64_t i = 0; !is_whole && i < count; ++i) {
      std::copy_n(tile + i * tile_row, columns * kWinogradBlock, to + i * row);
    }
  }
}

template <int kBytes, int kOutputs>
ACCEL_PART_OF_LOOP void write_outputs(const WinogradRows& rows, const float* bias, float* image) {
  constexpr int64_t kNumbers = kOutputs + 2;
  const WinogradImages& images = rows.images;
  const int64_t width = images.size[1], tiles = whole_blocks(images.channels) * images.tiles[1];
  const int64_t top = rows.begin * kOutputs, end = std::min(rows.end * kOutputs, images.size[0]);
  const Block block = block_of(rows);
  float added[kWinogradBlock] = {};
  for (int64_t c = 0; bias != nullptr && c < block.count; ++c) added[c] = bias[rows.channel + c];
  for (int64_t y = rows.begin; y < rows.end; ++y) {
    const float* const from = rows.numbers + rows.channel + (y - rows.begin) * tiles;
    outputs_of_row<kBytes, kOutputs>(images, {from, kNumbers * rows.step, rows.step}, y, added,
                                     rows.scratch + (y * kOutputs - top) * width * kWinogradBlock);
  }
  scatter_block(rows.scratch, block, top * width, end * width, image);
}

constexpr int64_t kWindow = 9;  // pixels of a window

/// Windows of a block of columns to pixels [kWindow, kWinogradBlock].
ACCEL_PART_OF_LOOP void gather_windows(const float* windows, const WinogradWeights& of,
                                       int64_t count, float* pixels) {
  const int64_t first = of.is_flipped ? kWindow - 1 : 0, next = of.is_flipped ? -1 : 1;
  float* const to = pixels + first * kWinogradBlock;
  int64_t begin = 0;
  if (count < kWinogradBlock) std::fill_n(pixels, kWindow * kWinogradBlock, 0.0F);
  if (count == kWinogradBlock) {
    for (int64_t half = 0; half < kWinogradBlock; half += kEdge) {
      const float* const from = windows + half * of.column_step;
      transpose(
          [&](int i) __attribute__((always_inline)) { return from + i * of.column_step; },
          [&](int i)
              __attribute__((always_inline)) { return to + i * next * kWinogradBlock + half; });
    }
    begin = kEdge;
  }
  for (int64_t c = 0; c < count; ++c) {
    for (int64_t i = begin; i < kWindow; ++i) {
      to[i * next * kWinogradBlock + c] = windows[c * of.column_step + i];
    }
  }
}

/// The inverse, of windows that are not flipped.
ACCEL_PART_OF_LOOP void scatter_windows(const float* pixels, const WinogradWeights& of,
                                        int64_t count, float* windows) {
  int64_t begin = 0;
  if (count == kWinogradBlock) {
    for (int64_t half = 0; half < kWinogradBlock; half += kEdge) {
      float* const to = windows + half * of.column_step;
      transpose(
          [&](int i) __attribute__((always_inline)) { return pixels + i * kWinogradBlock + half; },
          [&](int i) __attribute__((always_inline)) { return to + i * of.column_step; });
    }
    begin = kEdge;
  }
  for (int64_t c = 0; c < count; ++c) {
    for (int64_t i = begin; i < kWindow; ++i) {
      windows[c * of.column_step + i] = pixels[i * kWinogradBlock + c];
    }
  }
}

constexpr int64_t kBlocksAtOnce = 8;  // gathered before the first is read, which would wait for it

template <int kBytes, int kOutputs>
ACCEL_PART_OF_LOOP void transform_weights(const WinogradWeights& of, const float* weights,
                                          int64_t begin, int64_t end, float* numbers) {
  constexpr int64_t kNumbers = kOutputs + 2, kPixels = kWindow * kWinogradBlock;
  constexpr int64_t kColumns = kBlocksAtOnce * kWinogradBlock;
  const int64_t width = whole_blocks(of.columns);
  float pixels[kBlocksAtOnce * kPixels];
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t first = 0; first < of.columns; first += kColumns) {
      const float* const from = weights + row * of.row_step + first * of.column_step;
      float* const to = numbers + row * width + first;
      const int64_t columns = std::min(kColumns, of.columns - first);
      for (int64_t i = 0; i < columns; i += kWinogradBlock) {
        gather_windows(from + i * of.column_step, of, std::min(kWinogradBlock, columns - i),
                       pixels + i * kWindow);
      }
      for (int64_t i = 0; i < columns; i += kWinogradBlock) {
        transform<kBytes, TransformKind::kWeights, kOutputs>(
            {pixels + i * kWindow, 3 * kWinogradBlock, kWinogradBlock},
            {to + i, kNumbers * of.step, of.step});
      }
    }
  }
}

template <int kBytes, int kOutputs>
ACCEL_PART_OF_LOOP void transform_weight_gradients(const WinogradWeights& of, const float* numbers,
                                                   int64_t begin, int64_t end, float* dweights) {
  constexpr int64_t kNumbers = kOutputs + 2;
  const int64_t width = whole_blocks(of.columns);
  for (int64_t row = begin; row < end; ++row) {
    for (int64_t first = 0; first < of.columns; first += kWinogradBlock) {
      float pixels[kWindow * kWinogradBlock];
      transform<kBytes, TransformKind::kWeightGradients, kOutputs>(
          {numbers + row * width + first, kNumbers * of.step, of.step},
          {pixels, 3 * kWinogradBlock, kWinogradBlock});
      scatter_windows(pixels, of, std::min(kWinogradBlock, of.columns - first),
                      dweights + row * of.row_step + first * of.column_step);
    }
  }
}

template <int kBytes>
ACCEL_PART_OF_LOOP void any_inputs(const WinogradRows& rows, const float* image) {
  rows.outputs == 2 ? transform_image<kBytes, TransformKind::kInputs, 2>(rows, image)
                    : transform_image<kBytes, TransformKind::kInputs, 4>(rows, image);
}

template <int kBytes>
ACCEL_PART_OF_LOOP void any_output_gradients(const WinogradRows& rows, const float* dy) {
  rows.outputs == 2 ? transform_image<kBytes, TransformKind::kOutputGradients, 2>(rows, dy)
                    : transform_image<kBytes, TransformKind::kOutputGradients, 4>(rows, dy);
}

template <int kBytes>
ACCEL_PART_OF_LOOP void any_outputs(const WinogradRows& rows, const float* bias, float* y) {
  rows.outputs == 2 ? write_outputs<kBytes, 2>(rows, bias, y)
                    : write_outputs<kBytes, 4>(rows, bias, y);
}

template <int kBytes>
ACCEL_PART_OF_LOOP void any_weights(const WinogradWeights& of, const float* weights, int64_t begin,
                                    int64_t end, float* numbers) {
  of.outputs == 2 ? transform_weights<kBytes, 2>(of, weights, begin, end, numbers)
                  : transform_weights<kBytes, 4>(of, weights, begin, end, numbers);
}

template <int kBytes>
ACCEL_PART_OF_LOOP void any_weight_gradients(const WinogradWeights& of, const float* numbers,
                                             int64_t begin, int64_t end, float* dweights) {
  of.outputs == 2 ? transform_weight_gradients<kBytes, 2>(of, numbers, begin, end, dweights)
                  : transform_weight_gradients<kBytes, 4>(of, numbers, begin, end, dweights);
}

}  // namespace

int64_t winograd_scratch(int64_t outputs, const WinogradImages& images, int64_t rows) {
  const PaddedRows padded = padded_rows_of(outputs, images, 0, rows, outputs + 2);
  return padded.rows * padded.pitch * kWinogradBlock;
}

ACCEL_FOR_EACH_CPU_OF(winograd_inputs_cpu, (any_inputs<64>, any_inputs<32>, any_inputs<16>),
                      (const WinogradRows& rows, const float* image), (rows, image))
ACCEL_FOR_EACH_CPU_OF(winograd_output_gradients_cpu,
                      (any_output_gradients<64>, any_output_gradients<32>,
                       any_output_gradients<16>),
                      (const WinogradRows& rows, const float* dy), (rows, dy))
ACCEL_FOR_EACH_CPU_OF(winograd_outputs_cpu, (any_outputs<64>, any_outputs<32>, any_outputs<16>),
                      (const WinogradRows& rows, const float* bias, float* y), (rows, bias, y))
ACCEL_FOR_EACH_CPU_OF(winograd_weights_cpu, (any_weights<64>, any_weights<32>, any_weights<16>),
                      (const WinogradWeights& of, const float* weights, int64_t begin, int64_t end,
                       float* numbers),
                      (of, weights, begin, end, numbers))
ACCEL_FOR_EACH_CPU_OF(winograd_weight_gradients_cpu,
                      (any_weight_gradients<64>, any_weight_gradients<32>,
                       any_weight_gradients<16>),
                      (const WinogradWeights& of, const float* numbers, int64_t begin, int64_t end,
                       float* dweights),
                      (of, numbers, begin, end, dweights))

}  // namespace accel
