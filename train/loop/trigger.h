// A periodic trigger, for logging, evaluation and saving.
#pragma once

#include <vector>

#include "core/api/schedule.h"
#include "core/recipe/units.h"

namespace accel {

/// Periods in steps and epochs depend on the step alone, so that a resumed run triggers at the same
/// steps as an uninterrupted one; wall time counts from the start of the process.
class Trigger {
 public:
  /// Percentages are of the whole run. Throws std::invalid_argument for a unit the run does not
  /// have.
  Trigger(const Durations& every, const ScheduleContext& run);

  /// Whether it is due after `step` optimizer steps, `seconds` after the start of the process.
  bool due(int64_t step, double seconds);
  /// About how often it is due in the steps (from, to] that take `seconds`.
  double times(int64_t from, int64_t to, double seconds) const;
  /// Replaces the period after `step` steps; wall time counts from now on.
  void change(const Durations& every, const ScheduleContext& run, int64_t step, double seconds) {
    *this = Trigger(every, run);
    due(step, seconds);
  }

 private:
  std::vector<int64_t> periods_;  ///< in steps
  double period_seconds_ = 0;     ///< 0: not by time
  double last_seconds_ = 0;
};

}  // namespace accel
