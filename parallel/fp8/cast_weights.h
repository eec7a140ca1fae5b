// Weights that are gathered in another type than that of the rows.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "kernels/fp8/gathered_weight.h"

namespace accel {

/// Names of weights of float32.
struct CastWeights {
  std::set<std::string> autocast = {};  ///< gathered in the type of ShardUnit::set_compute_dtype()
  /// Some of these: in that type their values of fp8 are gathered, and the scales entered here.
  std::map<std::string, std::shared_ptr<GatheredWeight>> fp8 = {};
};

}  // namespace accel
