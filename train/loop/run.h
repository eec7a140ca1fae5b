// Runs a built job: run folder, resume, training, report, exit code.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint/train_state.h"
#include "core/base/error.h"
#include "train/job/job.h"
#include "train/loop/plan_check.h"
#include "train/recipe/recipe_diff.h"

namespace accel {

/// Reads a checkpoint of another program into `state`, as restore() takes it. `allowed`: keys whose
/// change is consented to. Returns its assumptions, a line each. Throws CheckpointError.
using CheckpointImporter = std::function<std::vector<std::string>(
    Job& job, const std::string& folder, const std::vector<std::string>& allowed,
    TrainState& state)>;

struct RunRequest {
  std::string run_dir;               ///< as the user would type it; created if absent
  std::vector<std::string> allowed;  ///< recipe keys whose change is consented to
  bool must_resume = false;          ///< fail without a checkpoint
  RunAgain again = {};               ///< for the refusal of a changed recipe
  /// Where to rename the present run folder before the run; empty: it is kept. Nothing is renamed
  /// when this folder exists, as after a restart of the ranks.
  std::string old_dir = {};
  std::string export_note = {};           ///< on the exported model; for the first screen
  std::optional<int64_t> stop_after;      ///< steps after which to save and stop, as after a signal
  std::optional<Forecast> forecast = {};  ///< compared with the actual values
  CheckpointImporter import_accelerate = {};  ///< null: Accelerate's checkpoints are refused
  /// Writes report.html into the run folder at the end; null: no report.
  std::function<void(const std::string& run_dir)> write_report = {};
};

/// Whether the run folder has checkpoints: run_job() then resumes from one or refuses to start.
bool has_checkpoint(const RecipeOptions& recipe, const RunRequest& request);

/// Locks and prepares the run folder, resumes if there is a checkpoint, writes the resolved recipe,
/// trains, and reports. Returns kDone, kOther when an expectation is not met, or kInterrupted.
/// Throws the error that ended the run; existing checkpoints stay.
ExitCode run_job(Job& job, const RunRequest& request);

}  // namespace accel
