// Resizing of images of bytes in two passes. The horizontal pass transposes 16 rows at a time, so
// that a vector holds the same value of all of them; the vertical pass reads the rows as they are.
#include <immintrin.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "core/base/cpu_target.h"
#include "data/datasets/rows.h"
#include "data/transforms/resample.h"

namespace accel {
namespace {

constexpr int kFractionBits = 22;  // of Pillow's 8-bit weights
constexpr int32_t kHalf = 1 << (kFractionBits - 1);
constexpr int64_t kLanes = 16;  // bytes of a vector

/// FilterTaps with Pillow's fixed-point weights.
struct ByteTaps {
  std::vector<FilterTaps::Output> outputs;
  std::vector<int32_t> weights;
};

ByteTaps byte_taps(int64_t from, int64_t to, Interpolation interpolation) {
  FilterTaps exact = filter_taps(from, to, interpolation);
  ByteTaps taps{std::move(exact.outputs), std::vector<int32_t>(exact.weights.size())};
  std::transform(exact.weights.begin(), exact.weights.end(), taps.weights.begin(), [](double w) {
    return static_cast<int32_t>((w < 0 ? -0.5 : 0.5) + w * (1 << kFractionBits));
  });
  return taps;
}

int64_t in_vectors(int64_t count) {
  return (count + kLanes - 1) / kLanes;
}

/// Outputs that are weighted sums of inputs; each is some vectors of bytes.
struct Convolution {
  const uint8_t* from;
  int64_t step;     ///< bytes from one input to the next
  int64_t vectors;  ///< of an input and of an output
  const ByteTaps* taps;
};

/// Writes the sums to `out`, as bytes, one output after the other.
void convolve_any(const Convolution& convolution, uint8_t* out) {
  for (const FilterTaps::Output& output : convolution.taps->outputs) {
    const uint8_t* const first = convolution.from + output.first * convolution.step;
    const int32_t* const weights = convolution.taps->weights.data() + output.begin;
    for (int64_t lane = 0; lane < convolution.vectors * kLanes; ++lane) {
      int32_t sum = kHalf;
      for (int64_t i = 0; i < output.count; ++i) {
        sum += first[i * convolution.step + lane] * weights[i];
      }
      *out++ = static_cast<uint8_t>(std::clamp(sum >> kFractionBits, 0, 255));
    }
  }
}

__attribute__((target("avx2"))) void convolve_avx2(const Convolution& convolution, uint8_t* out) {
  for (const FilterTaps::Output& output : convolution.taps->outputs) {
    const uint8_t* const first = convolution.from + output.first * convolution.step;
    const int32_t* const weights = convolution.taps->weights.data() + output.begin;
    for (int64_t vector = 0; vector < convolution.vectors; ++vector, out += kLanes) {
      const uint8_t* from = first + vector * kLanes;
      __m256i low = _mm256_set1_epi32(kHalf), high = low;
      for (int64_t i = 0; i < output.count; ++i, from += convolution.step) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
        const __m256i weight = _mm256_set1_epi32(weights[i]);
        const __m256i half = _mm256_cvtepu8_epi32(bytes);
        const __m256i other = _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, kLanes / 2));
        low = _mm256_add_epi32(low, _mm256_mullo_epi32(half, weight));
        high = _mm256_add_epi32(high, _mm256_mullo_epi32(other, weight));
      }
      // Packing clamps to bytes. It keeps the halves of registers apart.
      const __m256i words =
          _mm256_permute4x64_epi64(_mm256_packs_epi32(_mm256_srai_epi32(low, kFractionBits),
                                                      _mm256_srai_epi32(high, kFractionBits)),
                                   0xd8);
      const __m128i bytes =
          _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), bytes);
    }
  }
}

__attribute__((target("avx512f"))) void convolve_avx512(const Convolution& convolution,
                                                        uint8_t* out) {
  constexpr __mmask16 kAll = 0xffff;  // GCC 12 warns of the forms without a mask
  for (const FilterTaps::Output& output : convolution.taps->outputs) {
    const uint8_t* const first = convolution.from + output.first * convolution.step;
    const int32_t* const weights = convolution.taps->weights.data() + output.begin;
    for (int64_t vector = 0; vector < convolution.vectors; ++vector, out += kLanes) {
      const uint8_t* from = first + vector * kLanes;
      __m512i sum = _mm512_set1_epi32(kHalf);
      for (int64_t i = 0; i < output.count; ++i, from += convolution.step) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(from));
        const __m512i input = _mm512_maskz_cvtepu8_epi32(kAll, bytes);
        sum = _mm512_add_epi32(sum, _mm512_mullo_epi32(input, _mm512_set1_epi32(weights[i])));
      }
      const __m512i value = _mm512_maskz_max_epi32(
          kAll, _mm512_maskz_srai_epi32(kAll, sum, kFractionBits), _mm512_setzero_si512());
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), _mm512_maskz_cvtusepi32_epi8(kAll, value));
    }
  }
}

using Convolve = void (*)(const Convolution& convolution, uint8_t* out);

Convolve best_convolve() {
  switch (cpu_target()) {
    case CpuTarget::kAvx512:
      return convolve_avx512;
    case CpuTarget::kAvx2:
      return convolve_avx2;
    default:
      return convolve_any;
  }
}

/// A square of kLanes x kLanes bytes.
struct Square {
  using Vector = uint8_t __attribute__((vector_size(kLanes)));
  std::array<Vector, kLanes> rows;

  /// Exchanges rows and columns: each of four rounds interleaves the halves of the rows.
  void transpose() {
    for (int round = 0; round < 4; ++round) {
      const std::array<Vector, kLanes> old = rows;
      for (size_t i = 0; i < kLanes / 2; ++i) {
        const Vector &a = old[i], &b = old[i + kLanes / 2];
        rows[2 * i] =
            __builtin_shufflevector(a, b, 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
        rows[2 * i + 1] = __builtin_shufflevector(a, b, 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13,
                                                  29, 14, 30, 15, 31);
      }
    }
  }
};

/// u8 rows of [width, channels].
struct Rows {
  const uint8_t* data;
  int64_t step;  ///< bytes from row to row
  int64_t height, width, channels;
};

/// The image after its horizontal pass: u8 [channels, height, width], rows and width in whole
/// vectors.
struct Planes {
  Planes(int64_t channels, int64_t height, int64_t width)
      : step(in_vectors(width) * kLanes),
        plane(in_vectors(height) * kLanes * step),
        bytes(DType::kU8, {channels * plane}),
        data(bytes.mutable_as<uint8_t>().data()) {}

  int64_t step, plane;  ///< from row to row, and from channel to channel
  Array bytes;
  uint8_t* data;
};

class HorizontalPass {
 public:
  HorizontalPass(const Rows& rows, int64_t width, Interpolation interpolation)
      : rows_(rows),
        row_bytes_(rows.width * rows.channels),
        taps_(byte_taps(rows.width, width, interpolation)),
        columns_(DType::kU8, {in_vectors(row_bytes_) * kLanes * kLanes}),
        filtered_(DType::kU8, {in_vectors(width) * kLanes * kLanes}),
        out_(rows.channels, rows.height, width) {}

  Planes run() && {
    std::fill_n(filtered_.mutable_data(), filtered_.bytes(), std::byte{0});  // beyond the width
    for (int64_t row = 0; row < rows_.height; row += kLanes) {
      take(row);
      for (int64_t channel = 0; channel < rows_.channels; ++channel) {
        const uint8_t* const from = columns_.as<uint8_t>().data() + channel * kLanes;
        convolve_({from, rows_.channels * kLanes, 1, &taps_},
                  filtered_.mutable_as<uint8_t>().data());
        put(out_.data + channel * out_.plane + row * out_.step);
      }
    }
    return std::move(out_);
  }

 private:
  /// Columns of kLanes rows; the last row stands for those beyond it.
  void take(int64_t first) {
    std::array<const uint8_t*, kLanes> rows;
    for (int64_t i = 0; i < kLanes; ++i) {
      const int64_t row = std::min(first + i, rows_.height - 1);
      rows[static_cast<size_t>(i)] = rows_.data + row * rows_.step;
    }
    uint8_t* to = columns_.mutable_as<uint8_t>().data();
    Square square = {};
    int64_t at = 0;
    for (; at + kLanes <= row_bytes_; at += kLanes, to += kLanes * kLanes) {
      for (size_t i = 0; i < kLanes; ++i) std::memcpy(&square.rows[i], rows[i] + at, kLanes);
      square.transpose();
      std::memcpy(to, square.rows.data(), sizeof square.rows);
    }
    if (at == row_bytes_) return;
    const auto rest = static_cast<size_t>(row_bytes_ - at);
    for (size_t i = 0; i < kLanes; ++i) std::memcpy(&square.rows[i], rows[i] + at, rest);
    square.transpose();
    std::memcpy(to, square.rows.data(), sizeof square.rows);
  }

  void put(uint8_t* to) const {
    const uint8_t* from = filtered_.as<uint8_t>().data();
    for (int64_t at = 0; at < out_.step; at += kLanes, from += kLanes * kLanes) {
      Square square;
      std::memcpy(square.rows.data(), from, sizeof square.rows);
      square.transpose();
      for (int64_t i = 0; i < kLanes; ++i) {
        std::memcpy(to + i * out_.step + at, &square.rows[static_cast<size_t>(i)], kLanes);
      }
    }
  }

  const Rows rows_;
  const int64_t row_bytes_;
  const ByteTaps taps_;
  const Convolve convolve_ = best_convolve();
  Array columns_;   // of kLanes rows
  Array filtered_;  // of one channel
  Planes out_;
};

/// The vertical pass over whole pixels: u8 [height, row], rows in whole vectors.
Array with_height(const Rows& rows, int64_t height, Interpolation interpolation) {
  const int64_t vectors = in_vectors(rows.width * rows.channels), step = vectors * kLanes;
  Array padded(DType::kU8, {rows.height, step}), out(DType::kU8, {height, step});
  std::fill_n(padded.mutable_data(), padded.bytes(), std::byte{0});
  for (int64_t row = 0; row < rows.height; ++row) {
    std::memcpy(padded.mutable_data() + row * step, rows.data + row * rows.step,
                static_cast<size_t>(rows.width * rows.channels));
  }
  const ByteTaps taps = byte_taps(rows.height, height, interpolation);
  best_convolve()({padded.as<uint8_t>().data(), step, vectors, &taps},
                  out.mutable_as<uint8_t>().data());
  return out;
}

}  // namespace

Array resample_bytes(const Array& image, const ImageSize& size, Interpolation interpolation) {
  const Shape& own = image.shape();
  Rows rows{image.as<uint8_t>().data(), own[1] * own[2], own[0], own[1], own[2]};
  Array low;
  if (is_height_first({rows.height, rows.width}, size)) {
    low = with_height(rows, size.height, interpolation);
    rows = {low.as<uint8_t>().data(), low.shape()[1], size.height, rows.width, rows.channels};
  }
  const Planes wide = HorizontalPass(rows, size.width, interpolation).run();
  const ByteTaps taps = byte_taps(rows.height, size.height, interpolation);  // each itself if low
  Array plane(DType::kU8, {size.height, wide.step});
  Array out(DType::kF32, {rows.channels, size.height, size.width});
  float* to = out.mutable_as<float>().data();
  for (int64_t channel = 0; channel < rows.channels; ++channel) {
    best_convolve()({wide.data + channel * wide.plane, wide.step, wide.step / kLanes, &taps},
                    plane.mutable_as<uint8_t>().data());
    for (int64_t row = 0; row < size.height; ++row, to += size.width) {
      put_unit_range(plane.data() + row * wide.step, size.width, to);
    }
  }
  return out;
}

}  // namespace accel
