#include "runner/cli/trial.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string_view>
#include <vector>

#include "runner/cli/load_recipe.h"
#include "runner/cli/world.h"
#include "runner/job/job.h"
#include "runner/loop/run.h"
#include "runner/loop/signals.h"
#include "runner/plan/forecast.h"

namespace accel {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  std::string name = (parent / "accel-run-XXXXXX").string();
  if (error || !mkdtemp(name.data())) {
    throw IoError("cannot make a folder for temporary files",
                  "let TMPDIR name a folder that can be written to");
  }
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

namespace {

/// The command line of a rank that does the trial.
std::vector<std::string> command_of(const RecipeArguments& arguments, const fs::path& dir,
                                    std::optional<int64_t> stop_after) {
  std::vector<std::string> argv = {"accel-run", "run", "--run-dir", dir.string()};
  if (stop_after) argv.insert(argv.end(), {"--stop-after", std::to_string(*stop_after)});
  if (!arguments.config.empty()) argv.insert(argv.end(), {"--config", arguments.config});
  if (arguments.smoke) argv.emplace_back("--smoke-section");
  argv.push_back(arguments.path);
  argv.insert(argv.end(), arguments.overrides.begin(), arguments.overrides.end());
  return argv;
}

/// The last step in a run's record.
int64_t steps_in(const fs::path& record) {
  constexpr std::string_view kStart = "{\"step\":";
  int64_t steps = 0;
  std::ifstream lines(record);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(kStart))
      steps = std::max<int64_t>(steps, std::atoll(line.c_str() + kStart.size()));
  }
  return steps;
}

/// Throws when the trial did not end as wanted.
TrialEnd run_ranks(const RecipeArguments& arguments, const AcceleratorSection& section,
                   const fs::path& dir, std::optional<int64_t> stop_after) {
  const ExitCode code =
      launch_ranks(section, {command_of(arguments, dir, stop_after), dir.string(), arguments.json});
  const bool good = code == ExitCode::kDone || (stop_after && code == ExitCode::kInterrupted);
  if (!good) throw Error(code, "a trial with several processes failed; what it said is above");
  return {steps_in(dir / "metrics.jsonl"), code};
}

}  // namespace

TrialEnd run_trial(const RecipeArguments& arguments, const fs::path& dir,
                   std::optional<int64_t> stop_after) {
  LoadedRecipe recipe = load_runnable(arguments, dir.string());
  const AcceleratorSection& section = recipe.options.accelerator;
  if (wants_ranks(section)) return run_ranks(arguments, section, dir, stop_after);
  const auto job =
      build_job(std::move(recipe.options), std::move(recipe.resolved), *recipe.registry);
  RunRequest request;
  request.run_dir = dir.string();
  request.stop_after = stop_after;
  if (job->recipe.log.plan) request.forecast = forecast(*job, request.run_dir);
  const ExitCode code = run_job(*job, request);
  if (const int signal = SignalWatch::received()) {
    throw Error(ExitCode::kInterrupted, "stopped by signal " + std::to_string(signal));
  }
  return {job->length.total_steps, code};
}

}  // namespace accel
