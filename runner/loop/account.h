// What a run writes down about itself for those who look at it later.
#pragma once

#include <string>
#include <vector>

#include "core/tracker.h"
#include "runner/job/job.h"
#include "runner/job/recipe_diff.h"
#include "runner/loop/plan_check.h"
#include "runner/track/record.h"

namespace accel {

/// How long the run will be and how often it saves: "total_steps" (0: bounded by time),
/// "steps_per_epoch", "batch", "ranks", "save_every_steps", "save_every_seconds".
std::vector<Measurement> plan_of(const Job& job);

/// Versions, the machine and what the job is made of, each under a name.
ConfigValues about(const Job& job);

/// The event that begins a process's part of the run, and all of the above.
struct Beginning {
  int64_t step = 0;
  bool resumed = false;
  std::string text;                   ///< where it starts from
  std::vector<RecipeChange> changes;  ///< of the recipe, since the checkpoint
  std::optional<Forecast> forecast;
};
void record_beginning(const Job& job, const Beginning& beginning, RunRecord& record);

/// Writes the report into the run's folder and returns its path; a failure is a warning, and the
/// path is empty then.
std::string report_on(const std::string& run_dir);

}  // namespace accel
