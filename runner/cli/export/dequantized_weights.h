// Quantized weights of checkpoints in float32, for exports.
#pragma once

#include <vector>

#include "formats/tensors/safetensors.h"
#include "formats/tensors/tensor_source.h"
#include "models/quantized/quantization_options.h"

namespace accel {

/// The weights of a checkpoint, with the quantized ones as float32 of the layers' shapes, each
/// dequantized when it is read.
std::vector<TensorSource> dequantized_weights(const std::vector<NamedArray>& weights,
                                              const QuantizationOptions& options);

}  // namespace accel
