#include "runner/cli/trial.h"

#include <unistd.h>

#include "runner/cli/load_recipe.h"
#include "runner/job/job.h"
#include "runner/loop/run.h"
#include "runner/loop/signals.h"

namespace accel {

namespace fs = std::filesystem;

ScratchFolder::ScratchFolder() {
  std::string name = (fs::temp_directory_path() / "accel-run-XXXXXX").string();
  if (!mkdtemp(name.data())) throw IoError("cannot make a folder in " + name);
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

int64_t run_trial(const RecipeArguments& arguments, const fs::path& dir,
                  std::optional<int64_t> stop_after) {
  LoadedRecipe recipe = load_recipe(arguments, dir.string());
  const auto job = build_job(std::move(recipe.options), std::move(recipe.resolved), components());
  RunRequest request;
  request.run_dir = dir.string();
  request.stop_after = stop_after;
  run_job(*job, request);
  if (const int signal = SignalWatch::received()) {
    throw Error(ExitCode::kInterrupted, "stopped by signal " + std::to_string(signal));
  }
  return job->length.total_steps;
}

}  // namespace accel
