#include "train/optim/schedules/warmed_schedule.h"

#include <stdexcept>

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {

int64_t steps_of(const std::string& option, const Duration& duration,
                 const ScheduleContext& context) {
  try {
    return context.steps(duration);
  } catch (const std::invalid_argument& reason) {
    throw Error(ExitCode::kRecipe, text("'{}': {}", option, reason.what()),
                "give it in steps, epochs or samples");
  }
}

int64_t run_length(const std::string& schedule, const ScheduleContext& context) {
  if (context.total_steps > 0) return context.total_steps;
  throw Error(
      ExitCode::kRecipe,
      text("the schedule '{}' needs a number of steps, but only time bounds the run", schedule),
      "give 'train.until' in steps, epochs, samples or tokens");
}

}  // namespace accel
