#include "train/loop/trigger.h"

#include <algorithm>

namespace accel {

Trigger::Trigger(const Durations& every, const ScheduleContext& run) {
  for (const Duration& duration : every) {
    if (duration.unit == Duration::Unit::kSeconds) {
      period_seconds_ =
          period_seconds_ > 0 ? std::min(period_seconds_, duration.value) : duration.value;
    } else {
      periods_.push_back(std::max<int64_t>(1, run.steps(duration)));
    }
  }
}

bool Trigger::due(int64_t step, double seconds) {
  bool now = false;
  for (const int64_t period : periods_) now = now || step % period == 0;
  if (period_seconds_ > 0 && seconds - last_seconds_ >= period_seconds_) {
    now = true;
    last_seconds_ = seconds;
  }
  return now;
}

double Trigger::times(int64_t from, int64_t to, double seconds) const {
  double count = period_seconds_ > 0 ? seconds / period_seconds_ : 0;
  // Steps of several periods count twice.
  for (const int64_t period : periods_) count += static_cast<double>(to / period - from / period);
  return count;
}

}  // namespace accel
