#include <immintrin.h>

#include <cstddef>
#include <utility>

#include "core/base/cpu_target.h"
#include "kernels/cpu/few_rows.h"
#include "kernels/cpu/vector_math.h"

namespace accel {
namespace {

/// Rows of x and kWeightRows of the weight, over the same columns.
template <typename Number>
struct Tile {
  const float* x;
  int64_t x_step;
  const Number* const* weights;
  int64_t count;     ///< a multiple of kSumLanes
  float* sums;       ///< by row of the weight, then of x
  int64_t sum_step;  ///< from a row of the weight to the next one
  int64_t ahead;     ///< bytes; 0: nothing is prefetched
};

/// Registers of kBytes of float32, and what they are converted from.
template <int kBytes>
struct Registers {
  using Float __attribute__((vector_size(kBytes))) = float;
  using Bits __attribute__((vector_size(kBytes))) = uint32_t;
  using Int __attribute__((vector_size(kBytes))) = int32_t;
  using Half __attribute__((vector_size(kBytes / 2))) = uint16_t;
  using Byte __attribute__((vector_size(kBytes / 4))) = int8_t;
};

template <int kBytes>
ACCEL_PART_OF_LOOP void load(const float* from, typename Registers<kBytes>::Float& to) {
  __builtin_memcpy(&to, from, kBytes);
}
template <int kBytes>
ACCEL_PART_OF_LOOP void load(const uint16_t* from, typename Registers<kBytes>::Float& to) {
  typename Registers<kBytes>::Half half;
  __builtin_memcpy(&half, from, kBytes / 2);
  const auto bits = __builtin_convertvector(half, typename Registers<kBytes>::Bits) << 16U;
  __builtin_memcpy(&to, &bits, kBytes);
}
template <int kBytes>
ACCEL_PART_OF_LOOP void load(const int8_t* from, typename Registers<kBytes>::Float& to) {
  typename Registers<kBytes>::Byte bytes;
  __builtin_memcpy(&bytes, from, kBytes / 4);
  to = __builtin_convertvector(__builtin_convertvector(bytes, typename Registers<kBytes>::Int),
                               typename Registers<kBytes>::Float);
}

template <int kBytes, size_t kRows, size_t kVectors, typename Number>
struct TileLoop {
  static constexpr size_t kWidth = kBytes / sizeof(float), kSums = kRows * kVectors;
  using Float = typename Registers<kBytes>::Float;
  using EachSum = std::make_index_sequence<kSums>;

  static ACCEL_PART_OF_LOOP void add_product(const Number* weight, const Float& x, Float& sum) {
    Float number;
    load<kBytes>(weight, number);
    sum += x * number;
  }

  /// Of one row of the weight. Registers are named one by one: arrays in loops would be in memory.
  template <size_t... kSum>
  static ACCEL_PART_OF_LOOP void add_row(const Tile<Number>& of, const Number* weight,
                                         const Float* x, Float* sums,
                                         std::index_sequence<kSum...>) {
    if (of.ahead != 0) {
      __builtin_prefetch(reinterpret_cast<const char*>(weight) + of.ahead, 0, 2);
    }
    (add_product(weight + kSum % kVectors * kWidth, x[kSum], sums[kSum]), ...);
  }

  template <size_t... kSum, size_t... kWeight>
  static ACCEL_PART_OF_LOOP void run(const Tile<Number>& of, std::index_sequence<kSum...>,
                                     std::index_sequence<kWeight...>) {
    Float sums[kWeightRows][kSums];
    (copy_sums(of, kWeight, EachSum(), sums[kWeight]), ...);
    for (int64_t i = 0; i < of.count; i += kSumLanes) {
      Float x[kSums];
      (load<kBytes>(of.x + kSum / kVectors * of.x_step + i + kSum % kVectors * kWidth, x[kSum]),
       ...);
      (add_row(of, of.weights[kWeight] + i, x, sums[kWeight], EachSum()), ...);
    }
    (put_sums(of, kWeight, EachSum(), sums[kWeight]), ...);
  }

  static ACCEL_PART_OF_LOOP float* lanes(const Tile<Number>& of, size_t weight, size_t sum) {
    return of.sums + weight * of.sum_step + sum / kVectors * kSumLanes + sum % kVectors * kWidth;
  }
  template <size_t... kSum>
  static ACCEL_PART_OF_LOOP void copy_sums(const Tile<Number>& of, size_t weight,
                                           std::index_sequence<kSum...>, Float* to) {
    (load<kBytes>(lanes(of, weight, kSum), to[kSum]), ...);
  }
  template <size_t... kSum>
  static ACCEL_PART_OF_LOOP void put_sums(const Tile<Number>& of, size_t weight,
                                          std::index_sequence<kSum...>, const Float* from) {
    (__builtin_memcpy(lanes(of, weight, kSum), &from[kSum], kBytes), ...);
  }
};

/// Adds the products of kRows rows of x to kVectors registers of their lanes.
template <int kBytes, size_t kRows, size_t kVectors, typename Number>
ACCEL_PART_OF_LOOP void add_tile(const Tile<Number>& of) {
  TileLoop<kBytes, kRows, kVectors, Number>::run(of, std::make_index_sequence<kRows * kVectors>(),
                                                 std::make_index_sequence<kWeightRows>());
}

/// Three rows of x at a time, a part of the lanes after the other: sums, x and a weight fill the
/// registers of AVX2.
template <int kBytes>
ACCEL_PART_OF_LOOP void add_tiles(const FewRowsPart& of, const float* const* weights,
                                  int64_t padded, float* sums) {
  constexpr int64_t kWidth = kBytes / sizeof(float);
  for (int64_t row = 0; row < of.rows; row += 3) {
    for (int64_t lane = 0; lane < kSumLanes; lane += kWidth) {
      const float* const first[] = {weights[0] + lane, weights[1] + lane, weights[2] + lane,
                                    weights[3] + lane};
      const Tile<float> tile = {.x = static_cast<const float*>(of.x) + row * of.x_step + lane,
                                .x_step = of.x_step,
                                .weights = first,
                                .count = padded,
                                .sums = sums + row * kSumLanes + lane,
                                .sum_step = of.rows * kSumLanes,
                                .ahead = 0};
      switch (of.rows - row) {
        case 1:
          add_tile<kBytes, 1, 1>(tile);
          break;
        case 2:
          add_tile<kBytes, 2, 1>(tile);
          break;
        default:
          add_tile<kBytes, 3, 1>(tile);
      }
    }
  }
}

ACCEL_PART_OF_LOOP void round_to_bfloat16(float* numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    from_float(numbers[i], &bits);
    numbers[i] = to_float(bits);
  }
}

template <typename Number>
ACCEL_PART_OF_LOOP void decode_numbers(const Number* from, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) to[i] = to_float(from[i]);
}

template <typename Number>
ACCEL_PART_OF_LOOP void decode_row(const FewRowsPart& of, int64_t n, int64_t padded, float* to) {
  constexpr int64_t kStep = 128 / sizeof(Number), kLine = 64;
  const auto* const from = static_cast<const Number*>(of.rows_of_weight[n]);
  int64_t i = 0;
  for (; i + kStep <= of.count; i += kStep) {
    const auto* const ahead = reinterpret_cast<const char*>(from + i) + of.ahead;
    __builtin_prefetch(ahead);
    __builtin_prefetch(ahead + kLine);
    decode_numbers(from + i, kStep, to + i);
  }
  decode_numbers(from + i, of.count - i, to + i);
  for (i = of.count; i < padded; ++i) to[i] = 0;
  if (!of.rounds) return;
  for (i = 0; sizeof(Number) == 1 && i < of.count; ++i) to[i] *= of.scales[n];
  round_to_bfloat16(to, of.count);
}

/// One row of x, by weights that are converted in registers.
template <int kBytes, typename Number>
ACCEL_PART_OF_LOOP void add_row(const FewRowsPart& of, float* sums) {
  const Number* weights[kWeightRows];
  for (int64_t n = 0; n < kWeightRows; ++n) {
    weights[n] = static_cast<const Number*>(of.rows_of_weight[n]);
  }
  add_tile<kBytes, 1, kSumLanes * sizeof(float) / kBytes>(
      Tile<Number>{.x = static_cast<const float*>(of.x),
                   .x_step = of.x_step,
                   .weights = weights,
                   .count = of.count,
                   .sums = sums,
                   .sum_step = kSumLanes,
                   .ahead = of.ahead});
}

template <int kBytes, typename Number>
ACCEL_PART_OF_LOOP void add_products(const FewRowsPart& of, float* sums) {
  const int64_t padded = (of.count + kSumLanes - 1) / kSumLanes * kSumLanes;
  const bool is_plain = padded == of.count && !of.rounds;
  if (of.rows == 1 && is_plain) return add_row<kBytes, Number>(of, sums);
  float decoded[kWeightRows][kMostColumns];
  const float* weights[kWeightRows];
  for (int64_t n = 0; n < kWeightRows; ++n) {
    weights[n] = decoded[n];
    if (sizeof(Number) == sizeof(float) && is_plain) {
      weights[n] = static_cast<const float*>(of.rows_of_weight[n]);
    } else {
      decode_row<Number>(of, n, padded, decoded[n]);
    }
  }
  add_tiles<kBytes>(of, weights, padded, sums);
}

template <int kBytes>
ACCEL_PART_OF_LOOP void add_products(const FewRowsPart& of, float* sums) {
  switch (of.type) {
    case StoredNumber::kFloat32:
      return add_products<kBytes, float>(of, sums);
    case StoredNumber::kBFloat16:
      return add_products<kBytes, uint16_t>(of, sums);
    case StoredNumber::kInt8:
      return add_products<kBytes, int8_t>(of, sums);
  }
}

}  // namespace

// As ACCEL_FOR_EACH_CPU, with registers of each variant's width.

__attribute__((target("avx2,fma"))) static void add_products_avx2(const FewRowsPart& of,
                                                                  float* sums) {
  add_products<32>(of, sums);
}

static void add_products_any(const FewRowsPart& of, float* sums) {
  add_products<16>(of, sums);
}

/// One row of x, whose columns are a multiple of kSumLanes, by int8. Compilers convert bytes to a
/// whole register in many steps.
__attribute__((target("avx2,fma"))) static void add_bytes_in_registers(const FewRowsPart& of,
                                                                       float* sums) {
  constexpr int64_t kLine = 64;
  __m256 low[kWeightRows], high[kWeightRows];
  for (int64_t n = 0; n < kWeightRows; ++n) {
    low[n] = _mm256_loadu_ps(sums + n * kSumLanes);
    high[n] = _mm256_loadu_ps(sums + n * kSumLanes + 8);
  }
  const auto* const columns = static_cast<const float*>(of.x);
  for (int64_t line = 0; line < of.count; line += kLine) {
    const int64_t end = of.count - line < kLine ? of.count : line + kLine;
    for (int64_t n = 0; n < kWeightRows; ++n) {
      __builtin_prefetch(static_cast<const char*>(of.rows_of_weight[n]) + line + of.ahead, 0, 2);
    }
    for (int64_t i = line; i < end; i += kSumLanes) {
      const __m256 x = _mm256_loadu_ps(columns + i), next = _mm256_loadu_ps(columns + i + 8);
      for (int64_t n = 0; n < kWeightRows; ++n) {
        const auto* const bytes = static_cast<const char*>(of.rows_of_weight[n]) + i;
        const __m256i first = _mm256_cvtepi8_epi32(_mm_loadu_si64(bytes));
        const __m256i second = _mm256_cvtepi8_epi32(_mm_loadu_si64(bytes + 8));
        low[n] = _mm256_fmadd_ps(x, _mm256_cvtepi32_ps(first), low[n]);
        high[n] = _mm256_fmadd_ps(next, _mm256_cvtepi32_ps(second), high[n]);
      }
    }
  }
  for (int64_t n = 0; n < kWeightRows; ++n) {
    _mm256_storeu_ps(sums + n * kSumLanes, low[n]);
    _mm256_storeu_ps(sums + n * kSumLanes + 8, high[n]);
  }
}

void few_rows_cpu(const FewRowsPart& of, float* sums) {
  const bool is_one_row = of.rows == 1 && !of.rounds && of.count % kSumLanes == 0;
  if (is_one_row && of.type == StoredNumber::kInt8 && cpu_target() == CpuTarget::kAvx2) {
    return add_bytes_in_registers(of, sums);
  }
  switch (cpu_target()) {
    case CpuTarget::kAvx512:
      return few_rows_avx512(of, sums);
    case CpuTarget::kAvx2:
      return add_products_avx2(of, sums);
    default:
      return add_products_any(of, sums);
  }
}

void sum_lanes(const float* lanes, int64_t count, float* sums) {
  if (cpu_target() == CpuTarget::kAvx512) return sum_lanes_avx512(lanes, count, sums);
  for (int64_t i = 0; i < count; ++i, lanes += kSumLanes) {
    float halves[kSumLanes];
    __builtin_memcpy(halves, lanes, sizeof halves);
    for (int64_t half = kSumLanes / 2; half > 0; half /= 2) {
      for (int64_t lane = 0; lane < half; ++lane) halves[lane] += halves[lane + half];
    }
    sums[i] = halves[0];
  }
}

}  // namespace accel
