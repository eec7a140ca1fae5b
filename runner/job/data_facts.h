// What the data was like, as a checkpoint keeps it, so that a model can be built without the data.
#pragma once

#include <string>

#include "core/data_shape.h"

namespace accel {

/// As JSON.
std::string shape_text(const DataShape& shape);
/// Throws CheckpointError for what shape_text() does not give.
DataShape shape_of_text(const std::string& text);

}  // namespace accel
