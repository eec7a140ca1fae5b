// Attention of a sequence to itself, of encoders.
#pragma once

#include <optional>

#include "models/adapted_linear.h"
#include "models/places.h"

namespace accel {

/// Scaled dot-product attention (Vaswani et al. 2017, arXiv:1706.03762, section 3.2) by its layers,
/// which are kept by reference.
struct SelfAttention {
  AdaptedLinearImpl &query, &key, &value;
  int64_t heads;
  double dropout;  ///< of what is attended to; 0 where the model is not trained
};

/// What the `places` of x [batch, length, width] see of all of it: [batch, places, width]. `mask`
/// is [batch, 1, 1, length]: which may be seen. For one place of each text there are no keys and
/// values: with a head's rows K, k of `key` and V, v of `value`, q . (K x + k) is (q K) . x + q .
/// k, and the sum of p (V x + v) is V (sum of p x) + (sum of p) v, which is two products with K and
/// V for a text instead of two for each place.
at::Tensor attend(const SelfAttention& by, const at::Tensor& x,
                  const std::optional<at::Tensor>& mask, Places places);

}  // namespace accel
