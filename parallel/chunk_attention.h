// Attention of queries to a part of the keys, as ring attention combines it.
#pragma once

#include <ATen/core/Tensor.h>

namespace accel {

/// Which keys are visible: with `causal`, as many queries as keys, query i sees keys 0 to i;
/// otherwise all. `mask`, bool [batch, 1, queries, keys], replaces it; undefined: none.
struct Visible {
  bool causal = false;
  at::Tensor mask = {};
};

/// Attention to some keys: normalized by the weights of these keys alone.
struct PartialAttention {
  at::Tensor out;   ///< [batch, heads, queries, width]
  at::Tensor logs;  ///< log-sum-exp of the scores, float32 [batch, heads, queries]; -inf: no key
};

struct AttentionSlopes {
  at::Tensor query, key, value;
};

/// Some keys, [batch, heads, keys, width]; they may have fewer heads than queries, a divisor.
struct KeyChunk {
  at::Tensor key, value;
  Visible visible = {};
};

/// Without autograd.
PartialAttention attend_chunk(const at::Tensor& query, const KeyChunk& keys);

/// Gradients by these keys alone; `all` is the attention to all keys and `slope` the gradient of
/// its output. Those of `key` and `value` have their heads.
AttentionSlopes attend_chunk_backward(const at::Tensor& query, const KeyChunk& keys,
                                      const PartialAttention& all, const at::Tensor& slope);

/// Adds the attention to further keys to `sum`, whose output is float32 or float64.
void merge(PartialAttention& sum, const PartialAttention& more);

}  // namespace accel
