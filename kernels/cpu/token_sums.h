// Sums of cached values by attention weights, over contiguous memory.
#pragma once

#include <cstdint>

namespace accel {

/// Most elements of a head of token_sums_cpu().
inline constexpr int64_t kMostTokenWidth = 512;
/// Values of consecutive tokens: float32, the bits of bfloat16, or int8.
template <typename Number>
struct TokenStates {
  const Number* data;
  int64_t step;  ///< from a token to the next one
  int64_t count, width;
};
struct TokenWeights {
  const float* weights;  ///< [queries, tokens]
  const float* scales;   ///< [tokens], of values; null: 1
  int64_t queries;
};
/// sums [queries, width]: of weights * scales * values over tokens.
void token_sums_cpu(const TokenStates<float>& values, const TokenWeights& by, float* sums);
void token_sums_cpu(const TokenStates<uint16_t>& values, const TokenWeights& by, float* sums);
void token_sums_cpu(const TokenStates<int8_t>& values, const TokenWeights& by, float* sums);

}  // namespace accel
