// The deadline of this process: when it has to save and stop.
#pragma once

#include <limits>
#include <optional>

#include "core/recipe/units.h"

namespace accel {

/// The earlier of `checkpoint.deadline`, counted from the start of the process, and the end of the
/// Slurm job (SLURM_JOB_END_TIME, seconds since 1970).
class Deadline {
 public:
  explicit Deadline(const std::optional<Duration>& given);

  /// Seconds until the deadline; infinity without one.
  double seconds_left() const;
  /// Whether another step and a save might not fit, with twice their durations as a margin.
  bool near(double step_seconds, double save_seconds) const {
    return seconds_left() < 2 * (step_seconds + save_seconds) + kMargin;
  }

 private:
  static constexpr double kMargin = 1;

  double end_ = std::numeric_limits<double>::infinity();  // seconds since 1970
};

}  // namespace accel
