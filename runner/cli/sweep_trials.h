// A sweep's trials as processes.
#pragma once

#include <csignal>
#include <optional>
#include <string>
#include <vector>

#include "runner/cli/verbs.h"
#include "runner/launch/rank_process.h"
#include "runner/sweep/stages.h"
#include "runner/sweep/trials.h"

namespace accel {

/// What a trial needs to be run. `folder` is the sweep's.
struct SweepPlace {
  const SweepOptions& sweep;
  std::string folder;
  std::string config;       ///< a file that says where to run; empty: none
  int64_t cpu_threads = 0;  ///< for each of a trial's processes; 0: as the recipe says
};

/// This process's, as NAME=value.
std::vector<std::string> own_environment();

/// The recipe of a trial, as the command line would say it.
RecipeArguments trial_recipe(const SweepPlace& place, const Trial& trial);

/// The steps that a stage but the last ends after.
std::optional<int64_t> stage_end(const SweepOptions& sweep, size_t stage);

/// One trial in one stage, in a process of its own, whose output goes to a file.
class TrialProcess {
 public:
  /// Throws Error when it cannot be started, IoError when the file cannot be written.
  TrialProcess(const SweepPlace& place, const Trial& trial, size_t number, size_t stage);

  size_t trial() const { return number_; }
  /// Asks it to save and stop.
  void stop() const { process_->send(SIGTERM); }
  /// Whether it has ended. Does not wait.
  bool ended();
  /// How the stage ended, told from the exit code and the run's record; nothing where the trial
  /// stopped on the way and can go on. Once it has ended.
  std::optional<StageResult> result() const;

 private:
  std::string dir_;
  std::vector<std::string> metrics_;
  size_t number_, stage_;
  std::optional<int64_t> until_;
  std::optional<RankProcess> process_;
  int code_ = -1;
};

}  // namespace accel
