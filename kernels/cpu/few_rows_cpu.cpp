#include <cstddef>
#include <utility>

#include "core/base/cpu_target.h"
#include "kernels/cpu/few_rows.h"
#include "kernels/cpu/vector_math.h"

namespace accel {
namespace {

/// Rows of x and of the weight, over the same columns.
template <typename Number>
struct Tile {
  const float* const* x;
  const Number* const* weights;
  int64_t count;       ///< a multiple of kSumLanes
  float* const* sums;  ///< by row of x, then of the weight
  int64_t ahead = 0;   ///< bytes
};

/// Registers of kBytes of float32, and what they are converted from.
template <int kBytes>
struct Registers {
  using Float __attribute__((vector_size(kBytes))) = float;
  using Bits __attribute__((vector_size(kBytes))) = uint32_t;
  using Half __attribute__((vector_size(kBytes / 2))) = uint16_t;
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
template <int kBytes, typename Number>
ACCEL_PART_OF_LOOP void add_product(const float* x, const Number* weight,
                                    typename Registers<kBytes>::Float& sum) {
  typename Registers<kBytes>::Float a, b;
  load<kBytes>(x, a);
  load<kBytes>(weight, b);
  sum += a * b;
}

/// Keeps its sums in registers of kBytes, which it names one by one: arrays in loops would be in
/// memory.
template <int kBytes, size_t kWeights, typename Number, size_t... kSum>
ACCEL_PART_OF_LOOP void add_tile(const Tile<Number>& of, std::index_sequence<kSum...>) {
  constexpr size_t kWidth = kBytes / sizeof(float), kVectors = kSumLanes / kWidth;
  typename Registers<kBytes>::Float sums[sizeof...(kSum)];
  (__builtin_memcpy(&sums[kSum], of.sums[kSum / kVectors] + kSum % kVectors * kWidth, kBytes), ...);
  for (int64_t i = 0; i < of.count; i += kSumLanes) {
    if (sizeof(Number) < sizeof(float)) {
      for (size_t n = 0; n < kWeights; ++n) {
        __builtin_prefetch(reinterpret_cast<const char*>(of.weights[n] + i) + of.ahead, 0, 2);
      }
    }
    (add_product<kBytes>(of.x[kSum / kVectors / kWeights] + i + kSum % kVectors * kWidth,
                         of.weights[kSum / kVectors % kWeights] + i + kSum % kVectors * kWidth,
                         sums[kSum]),
     ...);
  }
  (__builtin_memcpy(of.sums[kSum / kVectors] + kSum % kVectors * kWidth, &sums[kSum], kBytes), ...);
}

/// By row of x, row of the weight and vector of the lanes.
template <int kBytes, size_t kRows, size_t kWeights>
using Sums = std::make_index_sequence<kRows * kWeights * kSumLanes * sizeof(float) / kBytes>;

/// Two rows of x at a time with two of the weight, a last one with four.
template <int kBytes>
ACCEL_PART_OF_LOOP void add_tiles(const FewRowsPart& of, const float* const* weights,
                                  int64_t padded, float* sums) {
  static_assert(kWeightRows == 4);
  const auto at = [&](int64_t row, int64_t n) { return sums + (n * of.rows + row) * kSumLanes; };
  int64_t row = 0;
  for (; row + 2 <= of.rows; row += 2) {
    const float* const x[] = {of.x + row * of.x_step, of.x + (row + 1) * of.x_step};
    for (int64_t n = 0; n < kWeightRows; n += 2) {
      float* const to[] = {at(row, n), at(row, n + 1), at(row + 1, n), at(row + 1, n + 1)};
      add_tile<kBytes, 2>(Tile<float>{x, weights + n, padded, to}, Sums<kBytes, 2, 2>());
    }
  }
  if (row == of.rows) return;
  const float* const x[] = {of.x + row * of.x_step};
  float* const to[] = {at(row, 0), at(row, 1), at(row, 2), at(row, 3)};
  add_tile<kBytes, 4>(Tile<float>{x, weights, padded, to}, Sums<kBytes, 1, 4>());
}

ACCEL_PART_OF_LOOP float as_float(float number) {
  return number;
}
ACCEL_PART_OF_LOOP float as_float(uint16_t number) {
  return to_float(number);
}
ACCEL_PART_OF_LOOP float as_float(int8_t number) {
  return static_cast<float>(number);
}

ACCEL_PART_OF_LOOP void round_to_bfloat16(float* numbers, int64_t count) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    from_float(numbers[i], &bits);
    numbers[i] = to_float(bits);
  }
}

template <typename Number>
ACCEL_PART_OF_LOOP void decode_numbers(const Number* from, float scale, int64_t count, float* to) {
  for (int64_t i = 0; i < count; ++i) {
    to[i] = sizeof(Number) == 1 ? as_float(from[i]) * scale : as_float(from[i]);
  }
}

template <typename Number>
ACCEL_PART_OF_LOOP void decode_row(const FewRowsPart& of, int64_t n, int64_t padded, float* to) {
  constexpr int64_t kStep = 128 / sizeof(Number), kLine = 64;
  const auto* const from = static_cast<const Number*>(of.rows_of_weight[n]);
  const float scale = sizeof(Number) == 1 ? of.scales[n] : 1.0F;
  int64_t i = 0;
  for (; i + kStep <= of.count; i += kStep) {
    const auto* const ahead = reinterpret_cast<const char*>(from + i) + of.ahead;
    __builtin_prefetch(ahead);
    __builtin_prefetch(ahead + kLine);
    decode_numbers(from + i, scale, kStep, to + i);
  }
  decode_numbers(from + i, scale, of.count - i, to + i);
  for (i = of.count; i < padded; ++i) to[i] = 0;
  if (of.rounds) round_to_bfloat16(to, of.count);
}

/// One row of x, by bfloat16 weights that are converted in registers.
template <int kBytes>
ACCEL_PART_OF_LOOP void add_row(const FewRowsPart& of, float* sums) {
  const float* const x[] = {of.x};
  const uint16_t* weights[kWeightRows];
  float* to[kWeightRows];
  for (int64_t n = 0; n < kWeightRows; ++n) {
    weights[n] = static_cast<const uint16_t*>(of.rows_of_weight[n]);
    to[n] = sums + n * kSumLanes;
  }
  add_tile<kBytes, 4>(Tile<uint16_t>{x, weights, of.count, to, of.ahead}, Sums<kBytes, 1, 4>());
}

template <int kBytes>
ACCEL_PART_OF_LOOP void add_products(const FewRowsPart& of, float* sums) {
  const int64_t padded = (of.count + kSumLanes - 1) / kSumLanes * kSumLanes;
  if (of.rows == 1 && padded == of.count && of.type == StoredNumber::kBFloat16) {
    return add_row<kBytes>(of, sums);
  }
  float decoded[kWeightRows][kMostColumns];
  const float* weights[kWeightRows];
  const bool is_decoded = of.type == StoredNumber::kFloat32 && !of.rounds && padded == of.count;
  for (int64_t n = 0; n < kWeightRows; ++n) {
    weights[n] = is_decoded ? static_cast<const float*>(of.rows_of_weight[n]) : decoded[n];
    if (is_decoded) continue;
    switch (of.type) {
      case StoredNumber::kFloat32:
        decode_row<float>(of, n, padded, decoded[n]);
        break;
      case StoredNumber::kBFloat16:
        decode_row<uint16_t>(of, n, padded, decoded[n]);
        break;
      case StoredNumber::kInt8:
        decode_row<int8_t>(of, n, padded, decoded[n]);
        break;
    }
  }
  add_tiles<kBytes>(of, weights, padded, sums);
}

}  // namespace

// As ACCEL_FOR_EACH_CPU, with registers of each variant's width.

__attribute__((target("avx512f,avx512dq,avx512bw,avx512vl,avx2,fma"))) static void
few_rows_cpu_avx512(const FewRowsPart& of, float* sums) {
  add_products<64>(of, sums);
}

__attribute__((target("avx2,fma"))) static void few_rows_cpu_avx2(const FewRowsPart& of,
                                                                  float* sums) {
  add_products<32>(of, sums);
}

static void few_rows_cpu_any(const FewRowsPart& of, float* sums) {
  add_products<16>(of, sums);
}

void few_rows_cpu(const FewRowsPart& of, float* sums) {
  switch (cpu_target()) {
    case CpuTarget::kAvx512:
      return few_rows_cpu_avx512(of, sums);
    case CpuTarget::kAvx2:
      return few_rows_cpu_avx2(of, sums);
    default:
      return few_rows_cpu_any(of, sums);
  }
}

}  // namespace accel
