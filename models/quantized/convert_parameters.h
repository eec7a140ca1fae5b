// Conversion of a model's parameters to another type, for inference.
#pragma once

#include <c10/core/ScalarType.h>

#include <optional>

namespace accel {

class Model;

/// Converts floating-point parameters, one at a time, except codes and scales of quantized layers;
/// layers that compute in float32 have this type. Deferred parameters get memory, also without a
/// `dtype`.
void convert_parameters(Model& model, std::optional<c10::ScalarType> dtype);

}  // namespace accel
