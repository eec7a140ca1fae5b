// Quantized weights in folders of transformers, as bitsandbytes writes them.
#pragma once

#include <set>
#include <string>

#include "kernels/quantized_weight.h"
#include "models/hf/hf_weights.h"

namespace accel {

/// Renames and reshapes the quantized weights of `weights` to those of a QuantizedWeight:
/// "x.weight", "x.weight.absmax" and so on, and checks tables and block sizes. Returns the names
/// "x.weight". Throws DataError.
std::set<std::string> read_quantized_names(HfWeights& weights, WeightCode code);

/// Whether `name` without the prefix `base` is among the names.
bool is_in_base(const std::set<std::string>& names, const std::string& name,
                const std::string& base);

}  // namespace accel
