// Attention of one new token of each sequence over its cached tokens, on the CPU.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace accel {

/// Keys or values of cached tokens.
struct CachedTokens {
  at::Tensor states;  ///< F32, BF16 or I8 [rows, heads, capacity, width]
  at::Tensor scales;  ///< of I8: F32 [rows, heads, capacity, 1]
};

struct TokenAttention {
  CachedTokens keys, values;
  std::span<const int64_t> lengths;  ///< tokens of each row, with the new one
  int64_t window;                    ///< the last tokens that are seen; 0: all
  double scale;                      ///< of query . key
  double softcap;                    ///< as in AttentionScores
};

/// Whether token_attention() takes a query: one token of each sequence, F32 or BF16, in a
/// FewRowsScope with fused kernels and without gradients.
bool takes_token_attention(const at::Tensor& query);

/// Attention of a query [rows, heads, 1, width], whose heads are a multiple of those of keys: the
/// same sizes and type. Scores and sums are float32; keys and values are read once, as they are
/// stored. A row's result depends neither on other rows nor on the number of threads.
at::Tensor token_attention(const at::Tensor& query, const TokenAttention& by);

}  // namespace accel
