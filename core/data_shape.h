// What a dataset holds, so that models and metrics can be sized from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/array.h"

namespace accel {

/// The facts of a dataset that `auto` options are derived from. Zero or empty: does not apply.
struct DataShape {
  Shape input = {};                 ///< of one sample, after transforms: {1, 28, 28} or {context}
  DType input_type = DType::kF32;   ///< kF32 features or images, kI64 tokens
  Shape target = {};                ///< of one sample: {} for a class label, {context} for tokens
  DType target_type = DType::kI64;  ///< kI64 classes or tokens, kF32 for regression
  int64_t classes = 0;              ///< labels to tell apart
  int64_t vocab = 0;                ///< token ids are below this
  std::vector<std::string> labels = {};  ///< names of the classes, when known
};

}  // namespace accel
