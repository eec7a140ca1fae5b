// Several schedules one after another: the list form of `scheduler`.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/registry.h"
#include "core/schedule.h"

namespace accel {

/// One schedule and how long it lasts. Within it, percent and the end of the run are the phase's.
struct PhasePlan {
  Ref<Schedule> schedule;
  std::optional<Duration> length;  ///< none: until the end; for the last phase only
};

/// The schedule of a recipe: the only phase itself when it has no length, else all of them in a
/// row, the last one holding on at its end. Throws Error(kRecipe) for no phase at all, a phase
/// without a length before the last, and phases that are longer than the run.
std::unique_ptr<Schedule> make_schedule(const std::vector<PhasePlan>& phases,
                                        const ScheduleContext& context);

}  // namespace accel
