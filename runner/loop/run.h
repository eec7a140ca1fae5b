// A built job, from its run folder to its exit code.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "runner/job/job.h"
#include "runner/loop/plan_check.h"

namespace accel {

struct RunRequest {
  std::string run_dir;                    ///< as the user would type it; made if absent
  std::vector<std::string> allowed;       ///< recipe keys whose change is consented to
  bool must_resume = false;               ///< there has to be a checkpoint
  std::optional<int64_t> stop_after;      ///< steps after which to save and stop, as if signalled
  std::optional<Forecast> forecast = {};  ///< to be compared with what it takes
};

/// Whether run_job() goes on from a checkpoint in the run's own folder, or refuses to start.
bool has_checkpoint(const RecipeOptions& recipe, const RunRequest& request);

/// Locks and prepares the run folder, decides whether to resume and does so, writes the resolved
/// recipe, trains, and reports. Returns kDone, kOther when an expectation is not met, or
/// kInterrupted. Throws what ended the run otherwise; checkpoints already made stay.
ExitCode run_job(Job& job, const RunRequest& request);

}  // namespace accel
