// Self-attention of encoders, and block-diagonal masks of packed sequences.
#pragma once

#include "core/api/batch.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/context_parallel.h"
#include "models/layers/token_positions.h"

namespace accel {

struct BlockDiagonalMask {
  at::Tensor positions;  ///< int64 [batch, length], from 0 in each text
  at::Tensor mask;       ///< bool [batch, 1, length, length], true for visible tokens
};

/// First position of each token's text, int64 [batch, length]. `segments` has this shape; a run of
/// equal numbers is one text.
at::Tensor text_starts(const at::Tensor& segments);

/// By text_starts().
BlockDiagonalMask block_diagonal_mask(const at::Tensor& segments);
/// The same without a causal mask, for encoders.
BlockDiagonalMask whole_text_mask(const at::Tensor& segments);

/// Scaled dot-product attention (Vaswani et al. 2017, arXiv:1706.03762, section 3.2); holds
/// references to its layers.
struct SelfAttention {
  AdaptedLinearImpl &query, &key, &value;
  int64_t heads;
  double dropout;  ///< of attention weights; 0 in evaluation
};

/// Attention of the positions `places` to all of x [batch, length, width]: returns [batch, places,
/// width]; where ranks divide the sequence, of all positions of this rank. `keys` are not causal.
/// For a single position keys and
/// values are not computed: for a head's rows K, k of `key` and V, v of `value`, q . (K x + k) = (q
/// K) . x + q . k, and sum of p (V x + v) = V (sum of p x) + (sum of p) v: two products with K and
/// V per text instead of two per position.
at::Tensor attend(const SelfAttention& by, const at::Tensor& x, const VisibleKeys& keys,
                  TokenPositions places);

}  // namespace accel
