// The time this process has.
#pragma once

#include <limits>
#include <optional>

#include "core/units.h"

namespace accel {

/// The earlier of `checkpoint.deadline`, counted from the start of the process, and the end of the
/// job that Slurm has set (SLURM_JOB_END_TIME, seconds since 1970).
class Deadline {
 public:
  explicit Deadline(const std::optional<Duration>& given);

  /// Until the end; infinity when there is none.
  double seconds_left() const;
  /// Whether another step and a save, of these lengths, might not fit. Leaves room for both twice.
  bool near(double step_seconds, double save_seconds) const {
    return seconds_left() < 2 * (step_seconds + save_seconds) + kMargin;
  }

 private:
  static constexpr double kMargin = 1;

  double end_ = std::numeric_limits<double>::infinity();  // seconds since 1970
};

}  // namespace accel
