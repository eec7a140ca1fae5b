// Metadata of a run for its record: length, versions, hardware, configuration.
#pragma once

#include <string>
#include <vector>

#include "core/api/tracker.h"
#include "track/record.h"
#include "train/job/job.h"
#include "train/loop/plan_check.h"
#include "train/recipe/recipe_diff.h"

namespace accel {

/// "total_steps" (0: bounded by time), "steps_per_epoch", "batch", "ranks", "save_every_steps",
/// "save_every_seconds".
std::vector<Measurement> plan_of(const Job& job);

/// Versions, hardware and the job's configuration, by name.
ConfigValues about(const Job& job);

/// Records the start of a process: its start or resume event, the changed options, plan and
/// metadata.
struct RunStart {
  int64_t step = 0;
  bool resumed = false;
  std::string text;                   ///< the start: step or checkpoint
  std::vector<RecipeChange> changes;  ///< of the recipe, since the checkpoint
  std::optional<Forecast> forecast;
};
void record_run_start(const Job& job, const RunStart& start, RunRecord& record);

}  // namespace accel
