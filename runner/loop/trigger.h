// When something that happens every so often is due.
#pragma once

#include <vector>

#include "core/schedule.h"
#include "core/units.h"

namespace accel {

/// Steps and epochs are pure functions of the step, so that a resumed run keeps the rhythm of an
/// uninterrupted one; wall time starts anew with the process.
class Trigger {
 public:
  /// Percent means of the whole run. Throws std::invalid_argument for a unit that the run lacks.
  Trigger(const Durations& every, const ScheduleContext& run);

  /// Whether it is due after `step` optimizer steps, at `seconds` since the process started.
  bool due(int64_t step, double seconds);

 private:
  std::vector<int64_t> periods_;  ///< in steps
  double period_seconds_ = 0;     ///< 0: not by time
  double last_seconds_ = 0;
};

}  // namespace accel
