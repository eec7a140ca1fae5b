#include "core/api/schedule.h"

#include <cmath>
#include <stdexcept>

#include "core/base/text.h"

namespace accel {

int64_t ScheduleContext::steps(const Duration& duration) const {
  const auto whole = [](double value) { return static_cast<int64_t>(std::ceil(value)); };
  switch (duration.unit) {
    case Duration::Unit::kSteps:
      return whole(duration.value);
    case Duration::Unit::kEpochs:
      return whole(duration.value * static_cast<double>(steps_per_epoch));
    case Duration::Unit::kSamples:
      if (samples_per_step > 0)
        return whole(duration.value / static_cast<double>(samples_per_step));
      break;
    case Duration::Unit::kTokens:
      if (tokens_per_step > 0) return whole(duration.value / static_cast<double>(tokens_per_step));
      break;
    case Duration::Unit::kPercent:
      if (total_steps > 0) return whole(duration.value / 100.0 * static_cast<double>(total_steps));
      break;
    case Duration::Unit::kSeconds:
      break;
  }
  throw std::invalid_argument(
      text("'{}' is not a number of steps in this run", to_string(duration)));
}

}  // namespace accel
