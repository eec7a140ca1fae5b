#include "runner/cli/sweep_trials.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "runner/launch/owned_fd.h"
#include "runner/report/run_summary.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

std::string dir_of(const SweepPlace& place, const Trial& trial) {
  return place.folder + "/" + trial.name;
}

std::vector<std::string> command_of_trial(const SweepPlace& place, const Trial& trial,
                                          std::optional<int64_t> until) {
  const RecipeArguments recipe = trial_recipe(place, trial);
  std::vector<std::string> argv = {"accel-run", "run", "--run-dir", recipe.run_dir};
  if (place.cpu_threads > 0) {  // another number of trials at once is no other sweep
    argv.insert(argv.end(), {"--allow", "accelerator.num_cpu_threads_per_process"});
  }
  if (until) argv.insert(argv.end(), {"--stop-after", std::to_string(*until)});
  if (!recipe.config.empty()) argv.insert(argv.end(), {"--config", recipe.config});
  argv.push_back(recipe.path);
  argv.insert(argv.end(), recipe.overrides.begin(), recipe.overrides.end());
  return argv;
}

}  // namespace

std::vector<std::string> own_environment() {
  std::vector<std::string> all;
  for (char** at = environ; *at; ++at) all.emplace_back(*at);
  return all;
}

RecipeArguments trial_recipe(const SweepPlace& place, const Trial& trial) {
  RecipeArguments recipe;
  recipe.path = place.sweep.recipe;
  recipe.config = place.config;
  recipe.run_dir = dir_of(place, trial);
  recipe.first_override = 1;
  for (const auto& [key, value] : place.sweep.overrides) {
    recipe.overrides.push_back(override_text({key, value}));
  }
  for (const TrialValue& value : trial.values) recipe.overrides.push_back(override_text(value));
  recipe.overrides.push_back("name=" + place.sweep.name + "-" + trial.name);
  if (!place.sweep.stages.empty()) {
    recipe.overrides.push_back("train.until=" + to_string(place.sweep.stages.back().until));
  }
  if (place.cpu_threads > 0) {
    recipe.overrides.push_back("accelerator.num_cpu_threads_per_process=" +
                               std::to_string(place.cpu_threads));
  }
  return recipe;
}

std::optional<int64_t> stage_end(const SweepOptions& sweep, size_t stage) {
  if (stage + 1 >= sweep.stages.size()) return std::nullopt;
  return static_cast<int64_t>(sweep.stages[stage].until.value);
}

TrialProcess::TrialProcess(const SweepPlace& place, const Trial& trial, size_t number, size_t stage)
    : dir_(dir_of(place, trial)),
      metrics_(metrics_of(place.sweep)),
      number_(number),
      stage_(stage),
      until_(stage_end(place.sweep, stage)) {
  const std::string output = place.folder + "/logs/" + trial.name + ".log";
  const OwnedFd file(::open(output.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666));
  if (!file) throw IoError("cannot write '" + output + "': " + std::strerror(errno));
  RankStart start;
  start.program = fs::read_symlink("/proc/self/exe").string();
  start.argv = command_of_trial(place, trial, until_);
  start.environment = own_environment();
  start.standard_error = file.get();
  start.own_output = false;
  process_.emplace(start);
}

bool TrialProcess::ended() {
  if (code_ >= 0) return true;
  const std::optional<RankEnd> end = process_->reap();
  if (!end) return false;
  constexpr int kOfSignals = 128;
  code_ = end->by_signal ? kOfSignals + end->number : end->number;
  return true;
}

std::optional<StageResult> TrialProcess::result() const {
  StageResult out{.trial = number_, .stage = stage_, .failed = true, .code = code_};
  const auto is = [&](ExitCode code) { return code_ == static_cast<int>(code); };
  if (!fs::exists(dir_ + "/metrics.jsonl")) {
    return is(ExitCode::kInterrupted) ? std::nullopt : std::optional(out);
  }
  const RunSummary run = read_run(dir_);
  out.step = run.step;
  for (const std::string& name : metrics_) {
    const Curve* curve = run.curve(name);
    if (curve && std::isfinite(curve->last())) out.values[name] = curve->last();
  }
  if (is(ExitCode::kInterrupted)) {
    if (!until_ || run.step < *until_) return std::nullopt;
    out.failed = false;
  } else {
    // An expectation that is not met has an exit code of its own: the trial came to its end.
    const bool expected = is(ExitCode::kOther) && run.standing() == RunStanding::kFinished;
    out.failed = !is(ExitCode::kDone) && !expected;
  }
  return out;
}

}  // namespace accel
