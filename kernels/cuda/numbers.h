// Numbers and functions that kernels use on a GPU and on the CPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

#ifdef __CUDACC__
#define ACCEL_ON_DEVICE __device__ __forceinline__
#else
#define ACCEL_ON_DEVICE inline
#endif

namespace accel::cuda {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

/// The bits of a bfloat16.
struct Bf16 {
  uint16_t bits;
};

ACCEL_ON_DEVICE float float_of_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
ACCEL_ON_DEVICE uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

ACCEL_ON_DEVICE float to_float(float x) {
  return x;
}
ACCEL_ON_DEVICE float to_float(Bf16 x) {
  return float_of_bits(static_cast<uint32_t>(x.bits) << 16U);
}

ACCEL_ON_DEVICE bool is_finite(float x) {
  return (bits_of(x) & 0x7F800000U) != 0x7F800000U;
}

/// The nearest number of the type, ties to even; NaN for NaN.
ACCEL_ON_DEVICE void round_to(float x, float* to) {
  *to = x;
}
ACCEL_ON_DEVICE void round_to(float x, Bf16* to) {
#ifdef __CUDA_ARCH__
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to->bits) : "f"(x));
#else
  const uint32_t bits = bits_of(x);
  const uint32_t rounded = (bits + 0x7FFFU + (bits >> 16U & 1U)) >> 16U;
  to->bits = static_cast<uint16_t>(x != x ? 0x7FC0U : rounded);
#endif
}

/// Up or down with probabilities that keep the mean, for 16 `random` bits.
ACCEL_ON_DEVICE void round_randomly(float x, uint32_t /*random*/, float* to) {
  *to = x;
}
ACCEL_ON_DEVICE void round_randomly(float x, uint32_t random, Bf16* to) {
  if (!is_finite(x)) return round_to(x, to);
  to->bits = static_cast<uint16_t>((bits_of(x) + (random & 0xFFFFU)) >> 16U);
}

/// Consecutive elements, read and written by one access.
template <class Number, int kCount>
struct alignas(sizeof(Number) * kCount) Pack {
  Number at[kCount];
};

template <int kCount, class Number>
ACCEL_ON_DEVICE Pack<Number, kCount> load(const Number* from) {
#ifdef __CUDA_ARCH__
  return *reinterpret_cast<const Pack<Number, kCount>*>(from);
#else
  Pack<Number, kCount> pack;
  memcpy(&pack, from, sizeof pack);
  return pack;
#endif
}
template <int kCount, class Number>
ACCEL_ON_DEVICE void store(const Pack<Number, kCount>& pack, Number* to) {
#ifdef __CUDA_ARCH__
  *reinterpret_cast<Pack<Number, kCount>*>(to) = pack;
#else
  memcpy(to, &pack, sizeof pack);
#endif
}

/// Elements of 16 bytes, the largest access.
template <class Number>
constexpr int kPackOf = 16 / static_cast<int>(sizeof(Number));

/// Whether all addresses that are not null are multiples of 16 bytes.
template <class... Pointers>
bool are_aligned(const Pointers*... pointers) {
  return ((reinterpret_cast<uintptr_t>(pointers) % 16 == 0) && ...);
}

/// e^min(x, 87): finite, so that its products with 0 are 0.
ACCEL_ON_DEVICE float finite_exp(float x) {
  return expf(x > 87.0F ? 87.0F : x);
}

/// Philox 4x32-10 (Salmon, Moraes, Dror and Shaw 2011, "Parallel random numbers: as easy as 1, 2,
/// 3", SC11): replaces the counter by 128 random bits.
ACCEL_ON_DEVICE void philox(uint64_t key, uint32_t (&counter)[4]) {
  uint32_t low = static_cast<uint32_t>(key), high = static_cast<uint32_t>(key >> 32U);
  for (int round = 0; round < 10; ++round) {
    const uint64_t a = static_cast<uint64_t>(0xD2511F53U) * counter[0];
    const uint64_t b = static_cast<uint64_t>(0xCD9E8D57U) * counter[2];
    const uint32_t first = static_cast<uint32_t>(b >> 32U) ^ counter[1] ^ low;
    const uint32_t third = static_cast<uint32_t>(a >> 32U) ^ counter[3] ^ high;
    counter[0] = first;
    counter[1] = static_cast<uint32_t>(b);
    counter[2] = third;
    counter[3] = static_cast<uint32_t>(a);
    low += 0x9E3779B9U;
    high += 0xBB67AE85U;
  }
}

}  // namespace accel::cuda
