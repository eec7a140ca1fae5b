// Several texts in one sample, which are to know nothing of one another.
#pragma once

#include <cstdint>

#include "core/data_shape.h"

namespace at {
class Tensor;
}

namespace accel {

/// Segments that data of single texts and of pairs may have at most. Where there are more, a sample
/// is of texts packed one behind the other: its segments count them from 1, and 0 is fill.
inline constexpr int64_t kMostSegmentsOfOneText = 2;

inline bool is_packed(const DataShape& data) {
  return data.segments > kMostSegmentsOfOneText;
}

/// A LanguageModel that can keep packed texts apart.
class KeepsTextsApart {
 public:
  virtual ~KeepsTextsApart() = default;

  /// As LanguageModel::hidden(): each token sees only those of its own text before it, and a text's
  /// positions begin with it. `segments` is like `tokens`.
  virtual at::Tensor hidden_apart(const at::Tensor& tokens, const at::Tensor& segments) = 0;
};

}  // namespace accel
