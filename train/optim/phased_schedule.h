// Sequential schedules: the list form of `scheduler`.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "core/api/schedule.h"
#include "core/recipe/registry.h"

namespace accel {

/// A schedule and its duration. Percentages and the end of the run are those of the phase.
struct PhasePlan {
  Ref<Schedule> schedule;
  std::optional<Duration> length;  ///< nullopt, for the last phase only: until the end
};

/// The schedule of a recipe: a single phase without length, or all phases in sequence, where the
/// last holds its final rate. Throws Error(kRecipe) without phases, for a phase without length
/// before the last, and for phases longer than the run.
std::unique_ptr<Schedule> make_schedule(const std::vector<PhasePlan>& phases,
                                        const ScheduleContext& context);

}  // namespace accel
