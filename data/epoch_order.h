// What a dataset offers that decides itself in which order an epoch visits it.
#pragma once

#include <cstdint>
#include <vector>

namespace accel {

/// Implemented beside Dataset by those for which a plain shuffle of the indices will not do.
class EpochOrder {
 public:
  virtual ~EpochOrder() = default;

  /// Draws in one epoch, the same for every epoch.
  virtual int64_t epoch_size() const = 0;

  /// The epoch's draws: a pure function of its arguments. Draw d is sample d % size(), and the
  /// (d / size())-th repeat of it within the epoch, which augmentation tells apart.
  virtual std::vector<int64_t> draws(uint64_t seed, int64_t epoch, bool shuffle) const = 0;
};

}  // namespace accel
