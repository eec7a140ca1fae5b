// Vector registers of a size that is known at compile time, for loops whose variants have sizes of
// their own (ACCEL_FOR_EACH_CPU_OF).
#pragma once

#include <cstdint>
#include <utility>

#include "core/base/cpu_target.h"

namespace accel {

constexpr int64_t kEdge = 8;  ///< of the squares that transpose() takes

template <int kBytes>
struct Register {
  using Float __attribute__((vector_size(kBytes))) = float;
};
using Eight = Register<32>::Float;

template <typename Float>
ACCEL_PART_OF_LOOP void load(const float* from, Float& to) {
  __builtin_memcpy(&to, from, sizeof(Float));
}
template <typename Float>
ACCEL_PART_OF_LOOP void store(const Float& from, float* to) {
  __builtin_memcpy(to, &from, sizeof(Float));
}

/// Calls work(0) to work(kCount - 1), unrolled: registers in loops would be in memory.
template <int kCount, typename Work>
ACCEL_PART_OF_LOOP void unrolled(const Work& work) {
  const auto each = [&]<int... kIndex>(std::integer_sequence<int, kIndex...>)
      __attribute__((always_inline)) {
    (work(kIndex), ...);
  };
  each(std::make_integer_sequence<int, kCount>());
}

/// A pair of rows of a transposition, element by element.
ACCEL_PART_OF_LOOP void interleave(const Eight& a, const Eight& b, Eight& low, Eight& high) {
  low = __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
  high = __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
}
ACCEL_PART_OF_LOOP void interleave_pairs(const Eight& a, const Eight& b, Eight& low, Eight& high) {
  low = __builtin_shufflevector(a, b, 0, 1, 8, 9, 4, 5, 12, 13);
  high = __builtin_shufflevector(a, b, 2, 3, 10, 11, 6, 7, 14, 15);
}
ACCEL_PART_OF_LOOP void interleave_halves(const Eight& a, const Eight& b, Eight& low, Eight& high) {
  low = __builtin_shufflevector(a, b, 0, 1, 2, 3, 8, 9, 10, 11);
  high = __builtin_shufflevector(a, b, 4, 5, 6, 7, 12, 13, 14, 15);
}

/// Transposes 8 x 8 numbers.
ACCEL_PART_OF_LOOP void transpose(Eight* rows) {
  Eight a[kEdge], b[kEdge];
  unrolled<4>([&](int i) __attribute__((always_inline)) {
    interleave(rows[2 * i], rows[2 * i + 1], a[2 * i], a[2 * i + 1]);
  });
  unrolled<4>([&](int i) __attribute__((always_inline)) {
    const int first = i / 2 * 4 + i % 2;
    interleave_pairs(a[first], a[first + 2], b[2 * i], b[2 * i + 1]);
  });
  unrolled<4>([&](int i) __attribute__((always_inline)) {
    interleave_halves(b[i], b[i + 4], rows[i], rows[i + 4]);
  });
}

/// Transposes squares of 8 vectors: element i is at from(i) and to(i).
template <typename From, typename To>
ACCEL_PART_OF_LOOP void transpose(const From& from, const To& to) {
  Eight rows[kEdge];
  unrolled<kEdge>([&](int i) __attribute__((always_inline)) { load(from(i), rows[i]); });
  transpose(rows);
  unrolled<kEdge>([&](int i) __attribute__((always_inline)) { store(rows[i], to(i)); });
}

}  // namespace accel
