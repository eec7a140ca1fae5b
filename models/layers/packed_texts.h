// Packed texts of encoders: several texts in one sample, each as if it were alone.
#pragma once

#include "core/api/data_shape.h"

namespace accel {

/// Implemented by encoders for packed texts: built for data with is_packed(), they read
/// Batch::segments as the numbers of the texts of a row from 1, 0 on padding. Attention is
/// block-diagonal, and positions restart in each text.
class PacksTexts {
 public:
  virtual ~PacksTexts() = default;
};

/// Throws Error (kRecipe) where the segments of `data` mean something else than the model reads in
/// them; `packed`: it was built for packed texts.
void check_texts(const char* model, bool packed, const DataShape& data);

}  // namespace accel
