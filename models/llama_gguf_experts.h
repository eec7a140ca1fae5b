// The experts of a Llama's mixture as llama.cpp has them: stacked, one tensor of each projection.
#pragma once

#include <vector>

#include "formats/tensors/tensor_source.h"

namespace accel {

/// `weights` of a folder, those of a layer's experts ("mlp.experts.3.up_proj.weight", of shape
/// [out, in]) in place of the first as one of [experts, out, in], without the number
/// ("mlp.experts.up_proj.weight"). Experts must be numbered from 0 and of one shape and type, else
/// std::invalid_argument is thrown.
std::vector<TensorSource> stacked_experts(const std::vector<TensorSource>& weights);

}  // namespace accel
