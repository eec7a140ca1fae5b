// The weights of an exported model, read when they are written.
#pragma once

#include <vector>

#include "formats/tensors/safetensors.h"
#include "formats/tensors/tensor_source.h"
#include "runner/cli/export/export_source.h"

namespace accel {

/// The weights as the checkpoint has them, dequantized and with the adapter merged if there is one.
/// Throws Error (kRecipe) for an adapter that cannot be merged.
std::vector<TensorSource> whole_weights(const std::vector<NamedArray>& weights,
                                        const ExportSource& source);

WeightShapes shapes_of(const std::vector<TensorSource>& weights);

/// The weights as the folder has them; layouts change one tensor at a time.
std::vector<TensorSource> stored_sources(const std::vector<TensorSource>& weights,
                                         const HfNames& names);

}  // namespace accel
