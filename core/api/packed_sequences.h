// Packed sequences: several texts in one sample, with a block-diagonal attention mask.
#pragma once

#include <cstdint>

#include "core/api/data_shape.h"

namespace at {
class Tensor;
}

namespace accel {

/// Maximum number of segment ids of single texts and pairs. Data with more has packed samples: its
/// segments number the texts from 1, and 0 is padding.
inline constexpr int64_t kMostSegmentsOfOneText = 2;

inline bool is_packed(const DataShape& data) {
  return data.segments > kMostSegmentsOfOneText;
}

/// A LanguageModel with a forward pass for packed texts.
class PackedSequences {
 public:
  virtual ~PackedSequences() = default;

  /// LanguageModel::hidden() with a block-diagonal causal mask and positions that restart in each
  /// text. `segments` has the shape of `tokens`.
  virtual at::Tensor forward_packed(const at::Tensor& tokens, const at::Tensor& segments) = 0;
};

}  // namespace accel
