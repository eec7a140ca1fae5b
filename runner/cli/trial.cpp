#include "runner/cli/trial.h"

#include <unistd.h>

#include "runner/cli/load_recipe.h"
#include "runner/job/job.h"
#include "runner/loop/run.h"
#include "runner/loop/signals.h"

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

TrialEnd run_trial(const RecipeArguments& arguments, const fs::path& dir,
                   std::optional<int64_t> stop_after) {
  LoadedRecipe recipe = load_recipe(arguments, dir.string());
  const auto job = build_job(std::move(recipe.options), std::move(recipe.resolved), components());
  RunRequest request;
  request.run_dir = dir.string();
  request.stop_after = stop_after;
  const ExitCode code = run_job(*job, request);
  if (const int signal = SignalWatch::received()) {
    throw Error(ExitCode::kInterrupted, "stopped by signal " + std::to_string(signal));
  }
  return {job->length.total_steps, code};
}

}  // namespace accel
