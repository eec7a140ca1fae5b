// Disentangled attention of DeBERTa (He et al. 2021, arXiv:2006.03654): scores depend on contents
// and on learned relative positions, whose distances grow in buckets (DeBERTa V3,
// arXiv:2111.09543).
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/recipe/schema.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/self_attention.h"

namespace accel {

struct RelativeOptions {
  bool content_to_position = true;
  bool position_to_content = true;
  int64_t buckets = 256;
  Auto<int64_t> max_distance;
  bool share_projections = true;
  bool norm = true;

  static Schema<RelativeOptions> schema();
  /// The largest distance that is told apart; `context`: the maximum sequence length.
  int64_t longest(int64_t context) const { return max_distance.value_or(context); }
  /// Half of the rows of the table of relative positions.
  int64_t span(int64_t context) const { return buckets > 0 ? buckets : longest(context); }
};

/// What all layers of a pass share; undefined without relative positions.
struct RelativePass {
  at::Tensor table;                 ///< [2 x span, hidden_size]
  at::Tensor key_rows, query_rows;  ///< int64 [length, length]: rows of the table by two tokens
};

/// Of sequences of `length`, with `table` as its device says.
RelativePass relative_pass(const RelativeOptions& options, int64_t context, int64_t length,
                           const at::Tensor& table);

/// The projections of relative positions; null: no such term. It holds references to its layers.
struct RelativeTerms {
  AdaptedLinearImpl* key;    ///< of positions that contents ask for
  AdaptedLinearImpl* query;  ///< of positions that ask for contents
  double dropout;            ///< of the table; 0 in evaluation
};

/// Attention of x [batch, length, width] to itself, [batch, length, width]. `mask`: bool, true for
/// visible keys, broadcast to [batch, heads, length, length]; undefined: all are.
at::Tensor disentangled_attention(const SelfAttention& by, const RelativeTerms& terms,
                                  const at::Tensor& x, const at::Tensor& mask,
                                  const RelativePass& pass);

}  // namespace accel
