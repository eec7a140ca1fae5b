// Training jobs with all hooks: of a run, of a trial in a temporary folder, of a sweep's processes.
#pragma once

#include <csignal>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "runner/cli/load_recipe.h"
#include "runner/launch/rank_process.h"
#include "runner/sweep/trials.h"
#include "train/loop/run.h"

namespace accel {

/// Throws as build_job() does.
std::unique_ptr<Job> build_training_job(LoadedRecipe recipe, const World& world = {});

/// run_job() with those hooks of `request` set.
ExitCode run_training_job(Job& job, RunRequest request);

/// A temporary folder, removed by the destructor.
class ScratchFolder {
 public:
  /// Throws IoError.
  ScratchFolder();
  ~ScratchFolder();
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

/// Builds the job as a new process would and runs it in the run folder `dir`, for `stop_after`
/// steps if given. Throws the error that ended it.
struct TrialEnd {
  int64_t steps = 0;  ///< planned
  ExitCode code = ExitCode::kDone;
};
TrialEnd run_trial(const RecipeArguments& arguments, const std::filesystem::path& dir,
                   std::optional<int64_t> stop_after = std::nullopt);

/// The inputs of a trial's process; `folder` is the sweep's.
struct SweepContext {
  const SweepOptions& sweep;
  std::string folder;
  std::string config;       ///< a config file; empty: none
  int64_t cpu_threads = 0;  ///< per process of a trial; 0: the recipe's
};

/// The environment of this process, as NAME=value.
std::vector<std::string> own_environment();

/// The recipe of a trial with its overrides.
RecipeArguments trial_recipe(const SweepContext& context, const Trial& trial);

/// The last step of a stage; nothing for the last stage.
std::optional<int64_t> stage_end(const SweepOptions& sweep, size_t stage);

/// The process of a trial in one stage. Its output goes to a log file.
class TrialProcess {
 public:
  /// Throws Error when it cannot be started, IoError when the file cannot be written.
  TrialProcess(const SweepContext& context, const Trial& trial, size_t number, size_t stage);

  size_t trial() const { return number_; }
  /// Asks it to save and stop.
  void stop() const { process_->send(SIGTERM); }
  /// Whether it has ended. Does not wait.
  bool ended();
  /// Whether it has ended because another process trains in its folder.
  bool is_in_use() const { return code_ == static_cast<int>(ExitCode::kInUse); }
  /// The result, from the exit code and the run's record; nothing when the trial was interrupted
  /// and can be resumed, or is in use. Valid once it has ended.
  std::optional<StageResult> result() const;

 private:
  std::string dir_;
  std::vector<std::string> metrics_;
  size_t number_, stage_;
  std::optional<int64_t> until_;
  std::optional<RankProcess> process_;
  int code_ = -1;
};

/// Throws RecipeError when the ranking or a stage compares a metric that trials do not log. The
/// names are found by planning a trial in a child process; a trial that cannot be planned passes.
void check_metrics(const SweepContext& context, const std::vector<Trial>& trials);

}  // namespace accel
