// Shapes, types and vocabulary of a dataset, from which models and metrics are sized.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/array.h"

namespace accel {

/// Padding of samples that differ in their first dimension: each micro-batch is padded on the right
/// to its longest sample. The length depends only on its samples, so it is the same for any number
/// of ranks and after any resume.
struct Padding {
  int64_t input =
      0;  ///< padding token of inputs; targets are padded with kIgnoredTarget, segments with 0
  int64_t multiple = 1;  ///< lengths are rounded up to a multiple of this
};

/// Schema of a dataset, from which `auto` options are derived. Zero or empty: not applicable.
struct DataShape {
  Shape input = {};                 ///< of one sample, after transforms: {1, 28, 28} or {context}
  DType input_type = DType::kF32;   ///< kF32 features or images, kI64 tokens
  Shape target = {};                ///< of one sample: {} for a class label, {context} for tokens
  DType target_type = DType::kI64;  ///< kI64 classes or tokens, kF32 for regression
  int64_t classes = 0;              ///< number of classes
  int64_t vocab = 0;                ///< vocabulary size
  std::vector<std::string> labels = {};  ///< names of the classes, when known
  /// The classes were numbered by the labels that the data has, which are `labels`, or numbers.
  bool labels_found = false;
  /// Given: samples are token sequences of 1 to input[0] tokens, and a target with a dimension has
  /// the length of its input. None: all samples have the shapes above.
  std::optional<Padding> padding = {};
  std::optional<int64_t> mask_token = {};    ///< replaces masked tokens (masked language modelling)
  std::vector<int64_t> special_tokens = {};  ///< never masked
  int64_t segments = 0;                      ///< number of segment ids; 0: samples have no segments
};

}  // namespace accel
