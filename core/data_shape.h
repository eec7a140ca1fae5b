// What a dataset holds, so that models and metrics can be sized from it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/array.h"

namespace accel {

/// How samples that differ in their first dimension become one batch: each micro-batch is filled to
/// its longest sample, behind what the sample holds. What a micro-batch is filled to follows from
/// its samples alone, so it is the same for any number of ranks and after any resume.
struct Padding {
  int64_t input = 0;     ///< the token that fills inputs; targets get kIgnoredTarget, segments 0
  int64_t multiple = 1;  ///< a micro-batch's length is rounded up to one of this
};

/// The facts of a dataset that `auto` options are derived from. Zero or empty: does not apply.
struct DataShape {
  Shape input = {};                 ///< of one sample, after transforms: {1, 28, 28} or {context}
  DType input_type = DType::kF32;   ///< kF32 features or images, kI64 tokens
  Shape target = {};                ///< of one sample: {} for a class label, {context} for tokens
  DType target_type = DType::kI64;  ///< kI64 classes or tokens, kF32 for regression
  int64_t classes = 0;              ///< labels to tell apart
  int64_t vocab = 0;                ///< token ids are below this
  std::vector<std::string> labels = {};  ///< names of the classes, when known
  /// Given: samples are token sequences of any length from 1 to input[0], and where the target has
  /// a dimension it is as long as its input. None: all samples have the shapes above.
  std::optional<Padding> padding = {};
  std::optional<int64_t> mask_token = {};    ///< what hides a token that is to be guessed
  std::vector<int64_t> special_tokens = {};  ///< that mark texts up and are never to be guessed
  int64_t segments = 0;  ///< Sample::segments are below this; 0: samples have none
};

}  // namespace accel
