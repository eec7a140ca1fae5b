// Data of which only the shape and the number of samples are known.
#pragma once

#include <cstdint>

#include "core/data_shape.h"
#include "data/host_batch.h"
#include "data/loader.h"
#include "runner/job/recipe.h"

namespace accel {

/// A dataset of `samples` zeros of this shape. `like` is what a recipe named for it.
DatasetParts shape_data(const DatasetParts& like, const DataShape& shape, int64_t samples);

/// A step's micro-batches of rank 0: `count` of them, of zeros, each as long as samples may be.
Window shape_window(const DataShape& shape, int64_t samples, int64_t count, int64_t world);

/// Bytes of one sample as the model takes it, with its target.
int64_t sample_bytes(const DataShape& shape);

}  // namespace accel
