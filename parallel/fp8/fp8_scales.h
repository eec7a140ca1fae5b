// Scales of sharded weights that are gathered in fp8.
#pragma once

#include <vector>

#include "parallel/unit_group.h"

namespace accel {

/// Finds the scales of CastWeights::fp8 from the largest magnitudes of whole weights, with one
/// all-reduce over each group of ranks. All ranks call the same, in the same order.
class Fp8Scales {
 public:
  /// The units outlive this object.
  void add(const UnitGroup& units);
  /// The weights have changed.
  void invalidate() { is_current_ = false; }
  /// Finds the scales of weights that have changed since the last call.
  void update();

 private:
  std::vector<ShardUnit*> units_;  ///< those with such weights
  bool is_current_ = false;
};

}  // namespace accel
