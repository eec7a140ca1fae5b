// Quantized weights of checkpoints in float32, for exports.
#pragma once

#include <vector>

#include "core/api/batch.h"
#include "core/base/array.h"
#include "formats/tensors/safetensors.h"
#include "models/quantized/quantization_options.h"

namespace accel {

/// The weights of a checkpoint, with the quantized ones as float32 of the layers' shapes.
std::vector<NamedArray> dequantized_weights(const std::vector<NamedArray>& weights,
                                            const QuantizationOptions& options);

}  // namespace accel
