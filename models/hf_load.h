// Weights of files into tensors that are there.
#pragma once

#include <string>
#include <vector>

#include "core/batch.h"
#include "runner/formats/hf_weights.h"

namespace accel {

/// Copies weights into the tensors of their names, in place and into the types they have. Returns
/// the names of a head that is not among them. Throws DataError for weights that do not fit;
/// `model` names what they are for.
std::vector<std::string> load_weights(const std::vector<NamedTensor>& into,
                                      const HfWeights& weights, const HfNames& names,
                                      const std::string& model);

}  // namespace accel
