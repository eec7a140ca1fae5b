// The data schema in a checkpoint, from which a model is built without the data.
#pragma once

#include <string>

#include "core/api/data_shape.h"

namespace accel {

/// As JSON.
std::string shape_text(const DataShape& shape);
/// Throws CheckpointError for an invalid text.
DataShape shape_of_text(const std::string& text);

}  // namespace accel
