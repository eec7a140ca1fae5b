// run, resume and smoke.
#include <filesystem>

#include "core/log.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/trial.h"
#include "runner/job/job.h"
#include "runner/loop/run.h"
#include "runner/loop/run_folder.h"
#include "runner/track/record_diff.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// "optimizer.lr" of "optimizer.lr=0.1", "callbacks" of "callbacks+={...}" or "~callbacks".
std::string key_of(const std::string& override_text) {
  std::string key = override_text.substr(0, override_text.find('='));
  if (key.starts_with('~')) key.erase(0, 1);
  if (key.ends_with('+') || key.ends_with('!')) key.pop_back();
  return key;
}

/// The recipe as `smoke` runs it: small, without expectations, saving when it stops.
RecipeArguments smoke_arguments(const std::string& path) {
  RecipeArguments arguments;
  arguments.path = path;
  arguments.smoke = true;
  const RecipeOptions recipe = load_recipe(arguments).options;
  arguments.overrides = {"checkpoint.every=never", "checkpoint.resume=auto",
                         "checkpoint.resume_step=auto", "~expect"};
  if (!recipe.smoke.contains("train.until")) arguments.overrides.push_back("train.until=4 steps");
  return arguments;
}

void smoke_one(const std::string& path) {
  const ScratchFolder scratch;
  const RecipeArguments arguments = smoke_arguments(path);
  const fs::path straight = scratch.path() / "straight", resumed = scratch.path() / "resumed";
  const int64_t steps = run_trial(arguments, straight).steps;
  const int64_t half = std::max<int64_t>(1, steps / 2);
  run_trial(arguments, resumed, half);
  run_trial(arguments, resumed);
  if (const auto found = first_difference(straight / "metrics.jsonl", resumed / "metrics.jsonl")) {
    throw Error(ExitCode::kOther, "'" + path + "' resumed at step " + std::to_string(half) +
                                      " is not the run it would have been: " + *found +
                                      " (straight and resumed)");
  }
  say("smoke " + path + ": " + std::to_string(steps) +
      " steps, and the same to the last bit when "
      "resumed at step " +
      std::to_string(half));
}

}  // namespace

ExitCode run_verb(const RecipeArguments& arguments) {
  LoadedRecipe recipe = load_recipe(arguments);
  RunRequest request;
  request.run_dir = "runs/" + recipe.options.name;
  request.allowed = arguments.allowed;
  check_run_folder(request.run_dir);
  const auto job = build_job(std::move(recipe.options), std::move(recipe.resolved), components());
  return run_job(*job, request);
}

ExitCode resume_verb(const RecipeArguments& arguments) {
  RecipeArguments inner = arguments;
  inner.path = (fs::path(arguments.path) / "recipe.yaml").string();
  if (!fs::exists(inner.path)) {
    throw Error(ExitCode::kRecipe,
                "'" + arguments.path + "' is no run folder: it has no recipe.yaml",
                "give the folder that 'run' printed, such as runs/NAME");
  }
  LoadedRecipe recipe = load_recipe(inner, arguments.path);
  RunRequest request;
  request.run_dir = arguments.path;
  request.must_resume = true;
  request.allowed = arguments.allowed;
  for (const std::string& text : arguments.overrides) request.allowed.push_back(key_of(text));
  check_run_folder(request.run_dir);
  const auto job = build_job(std::move(recipe.options), std::move(recipe.resolved), components());
  return run_job(*job, request);
}

ExitCode smoke_verb(const std::vector<std::string>& recipes) {
  for (const std::string& path : recipes) smoke_one(path);
  return ExitCode::kDone;
}

}  // namespace accel
