// Samples of a source and a target sequence, for encoder-decoder models.
#pragma once

#include "core/api/data_shape.h"

namespace accel {

/// Whether a sample's `input` is the tokens of a source and its `target` those of a target, each
/// of its own length: a micro-batch pads targets with kIgnoredTarget to its longest one. The
/// shape's `input` is {longest source} and its `target` {longest target, 0}, so that other tasks
/// refuse it.
inline bool has_target_sequences(const DataShape& data) {
  return data.padding && data.target.size() == 2 && data.target[0] > 0 && data.target[1] == 0;
}

}  // namespace accel
