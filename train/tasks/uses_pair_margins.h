// Tasks on preference pairs whose loss has a margin for each pair.
#pragma once

#include <cstdint>
#include <functional>

namespace accel {

/// The margin of a pair, by Batch::ids.
using PairMarginOf = std::function<double(int64_t id)>;

class UsesPairMargins {
 public:
  virtual ~UsesPairMargins() = default;
  /// Of the training data and of the eval data; null for data without margins, which are then 0.
  /// Called once, before the first step.
  virtual void set_margins(PairMarginOf train, PairMarginOf eval) = 0;
};

}  // namespace accel
