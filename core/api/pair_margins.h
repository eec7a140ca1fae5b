// Margins of preference pairs, for tasks that compare rewards.
#pragma once

#include <cstdint>
#include <optional>

namespace accel {

/// Optional interface of datasets of sequence pairs (has_sequence_pairs()).
class PairMargins {
 public:
  virtual ~PairMargins() = default;
  /// By how much the reward of the chosen answer of the pair at `index` should exceed the other's;
  /// none for a row without a margin, nan for one that is no number. Thread-safe.
  virtual std::optional<double> pair_margin(int64_t index) const = 0;
};

}  // namespace accel
