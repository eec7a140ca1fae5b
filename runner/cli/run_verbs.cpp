// run, resume and smoke.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/log.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/verbs.h"
#include "runner/job/job.h"
#include "runner/loop/run.h"

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

/// A folder of its own that goes when it does.
class ScratchFolder {
 public:
  ScratchFolder() {
    std::string name = (fs::temp_directory_path() / "accel-run-XXXXXX").string();
    if (!mkdtemp(name.data())) throw IoError("cannot make a folder in " + name);
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const fs::path& path() const { return path_; }

 private:
  fs::path path_;
};

/// The lines of metrics.jsonl that must be the same in equal runs: those of steps and evaluations.
std::vector<std::string> exact_lines(const fs::path& run) {
  std::ifstream in(run / "metrics.jsonl");
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) {
    const bool exact =
        line.find("\"loss_bits\"") != line.npos || line.find("\"eval\"") != line.npos;
    if (exact) lines.push_back(line);
  }
  return lines;
}

/// The recipe as `smoke` runs it: small, without expectations, saving when it stops.
RecipeArguments smoke_arguments(const std::string& path) {
  RecipeArguments arguments;
  arguments.path = path;
  arguments.smoke = true;
  const RecipeOptions recipe = load_recipe(arguments).options;
  arguments.overrides = {"checkpoint.every=never", "checkpoint.resume=auto", "~expect"};
  if (!recipe.smoke.contains("train.until")) arguments.overrides.push_back("train.until=4 steps");
  return arguments;
}

/// Builds the job anew, as another process would, and runs it. Returns its planned steps.
int64_t run_once(const RecipeArguments& arguments, const fs::path& dir,
                 std::optional<int64_t> stop_after = std::nullopt) {
  LoadedRecipe recipe = load_recipe(arguments, dir.string());
  const auto job = build_job(std::move(recipe.options), std::move(recipe.resolved), components());
  RunRequest request;
  request.run_dir = dir.string();
  request.stop_after = stop_after;
  run_job(*job, request);
  return job->length.total_steps;
}

void smoke_one(const std::string& path) {
  const ScratchFolder scratch;
  const RecipeArguments arguments = smoke_arguments(path);
  const int64_t steps = run_once(arguments, scratch.path() / "straight");
  const int64_t half = std::max<int64_t>(1, steps / 2);
  run_once(arguments, scratch.path() / "resumed", half);
  run_once(arguments, scratch.path() / "resumed");
  const auto straight = exact_lines(scratch.path() / "straight");
  const auto resumed = exact_lines(scratch.path() / "resumed");
  for (size_t i = 0; i < std::max(straight.size(), resumed.size()); ++i) {
    const std::string a = i < straight.size() ? straight[i] : "(nothing)";
    const std::string b = i < resumed.size() ? resumed[i] : "(nothing)";
    if (a != b) {
      throw Error(ExitCode::kOther, "'" + path + "' resumed at step " + std::to_string(half) +
                                        " is not the run it would have been\n  straight: " + a +
                                        "\n  resumed:  " + b);
    }
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
  const auto job = build_job(std::move(recipe.options), std::move(recipe.resolved), components());
  return run_job(*job, request);
}

ExitCode smoke_verb(const std::vector<std::string>& recipes) {
  for (const std::string& path : recipes) smoke_one(path);
  return ExitCode::kDone;
}

}  // namespace accel
