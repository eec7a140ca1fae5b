// Sums and maxima of rows in independent lanes, which hide the latency of registers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "core/base/cpu_target.h"
#include "kernels/cpu/registers.h"

namespace accel {

constexpr int kLanes = 32;

/// kLanes numbers in registers of kBytes; element i of a row is joined to lane i % kLanes. The bits
/// of results do not depend on kBytes.
template <int kBytes>
class Lanes {
 public:
  using Float = typename Register<kBytes>::Float;

  explicit ACCEL_PART_OF_LOOP Lanes(float first) {
    unrolled<kRegisters>([&](int j)
                             __attribute__((always_inline)) { lanes_[j] = Float{} + first; });
  }

  /// join(Float& lanes, int first): with the elements of a block from its `first`.
  template <typename Join>
  ACCEL_PART_OF_LOOP void each(const Join& join) {
    unrolled<kRegisters>([&](int j)
                             __attribute__((always_inline)) { join(lanes_[j], j * kWidth); });
  }

  /// Joins lane i with lane i + half of them by join(T& a, const T& b) until one is left, for
  /// registers of any size and for numbers.
  template <typename Join>
  ACCEL_PART_OF_LOOP float joined(const Join& join) {
    join_registers<kRegisters>(join);
    return join_halves<kBytes>(lanes_[0], join);
  }

 private:
  static constexpr int kWidth = kBytes / sizeof(float), kRegisters = kLanes / kWidth;

  template <int kCount, typename Join>
  ACCEL_PART_OF_LOOP void join_registers(const Join& join) {
    if constexpr (kCount > 1) {
      unrolled<kCount / 2>([&](int j) __attribute__((always_inline)) {
        join(lanes_[j], lanes_[j + kCount / 2]);
      });
      join_registers<kCount / 2>(join);
    }
  }

  template <int kSize, typename Join>
  static ACCEL_PART_OF_LOOP float join_halves(const typename Register<kSize>::Float& x,
                                              const Join& join) {
    if constexpr (kSize == 2 * sizeof(float)) {
      float low = x[0];
      const float high = x[1];
      join(low, high);
      return low;
    } else {
      typename Register<kSize / 2>::Float low, high;
      __builtin_memcpy(&low, &x, kSize / 2);
      __builtin_memcpy(&high, reinterpret_cast<const char*>(&x) + kSize / 2, kSize / 2);
      join(low, high);
      return join_halves<kSize / 2>(low, join);
    }
  }

  Float lanes_[kRegisters];
};

struct Sum {
  template <typename T>
  ACCEL_PART_OF_LOOP void operator()(T& sum, const T& x) const {
    sum += x;
  }
};

/// Joins each element of a row, and a number for those that its last lanes lack, by
/// join(T& lane, const T& element).
template <int kBytes, typename Join>
ACCEL_PART_OF_LOOP float over_lanes(const float* x, int64_t count, float rest, const Join& join) {
  Lanes<kBytes> lanes(rest);
  const auto block = [&](const float* part) __attribute__((always_inline)) {
    lanes.each([&](auto& lane, int first) __attribute__((always_inline)) {
      typename Lanes<kBytes>::Float numbers;
      load(part + first, numbers);
      join(lane, numbers);
    });
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) block(x + i);
  if (i < count) {
    float last[kLanes];
    std::fill_n(last, kLanes, rest);
    std::copy(x + i, x + count, last);
    block(last);
  }
  return lanes.joined(join);
}

template <int kBytes>
ACCEL_PART_OF_LOOP float sum_of_products(const float* a, const float* b, int64_t count) {
  Lanes<kBytes> sums(0.0F);
  const auto add = [&](const float* x, const float* y) __attribute__((always_inline)) {
    sums.each([&](auto& sum, int first) __attribute__((always_inline)) {
      typename Lanes<kBytes>::Float left, right;
      load(x + first, left);
      load(y + first, right);
      sum += left * right;
    });
  };
  int64_t i = 0;
  for (; i + kLanes <= count; i += kLanes) add(a + i, b + i);
  if (i < count) {
    float x[kLanes] = {}, y[kLanes] = {};
    std::copy(a + i, a + count, x);
    std::copy(b + i, b + count, y);
    add(x, y);
  }
  return sums.joined(Sum());
}

}  // namespace accel
