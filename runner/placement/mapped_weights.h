// Weights that stay in the mapped files of a model.
#pragma once

#include <vector>

#include "core/api/parameter.h"
#include "models/placement/mapped_range.h"

namespace accel {

/// The bytes of the weights in mapped files. Throws Error(kRecipe) for a weight that is in none.
std::vector<MappedRange> file_ranges(const std::vector<Parameter>& weights);

/// The vectors among the weights that are in no mapped file: those whose type there is another, and
/// what quantized weights have in JSON. None of a fake model but the latter.
std::vector<Parameter> unmapped_vectors(const std::vector<Parameter>& weights);

}  // namespace accel
