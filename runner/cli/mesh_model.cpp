#include "runner/cli/mesh_model.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <utility>

#include "core/base/regular_file.h"
#include "core/base/text.h"
#include "runner/cli/checkpoints.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/trial.h"
#include "train/loop/restored_job.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr auto kMeshFlag = "--mesh";

/// The run folder of `source`, a run folder or one of its checkpoints.
fs::path run_of(const std::string& source) {
  if (is_run(source)) return source;
  const fs::path all = fs::absolute(source).lexically_normal().parent_path();
  const fs::path run = fs::proximate(all.parent_path());
  if (all.filename() == "checkpoints" && fs::exists(run / "recipe.yaml")) return run;
  throw Error(
      ExitCode::kRecipe,
      text("'--mesh' needs the recipe of the run, but '{}' is not in its run folder", source),
      "give a run folder, or one of the checkpoints in it");
}

/// The recipe of the run that has the checkpoint.
LoadedRecipe recipe_of(const std::string& source, const MeshArguments& arguments) {
  const fs::path run = run_of(source);
  RecipeArguments recipe;
  recipe.path = (run / "recipe.yaml").string();
  require_regular_file(recipe.path);
  recipe.overrides = arguments.overrides;
  return load_runnable(recipe, run.string());
}

}  // namespace

void check_overrides(const MeshArguments& arguments) {
  if (arguments.mesh || arguments.overrides.empty()) return;
  throw Error(ExitCode::kRecipe,
              text("'{}' has no effect without '--mesh'", arguments.overrides.front()),
              "add '--mesh', or leave it out");
}

void add_mesh(CLI::App& verb, MeshArguments& to) {
  verb.add_flag(kMeshFlag, to.mesh,
                "divide the model over the ranks of the run's recipe, for one larger than the "
                "memory of a process; default: one process");
  verb.add_option("overrides", to.overrides,
                  "with --mesh, key=value of the recipe, such as accelerator.parallelism.pp=4");
}

std::optional<ExitCode> launch_mesh(const std::string& source, const MeshArguments& arguments,
                                    const VerbTable& verbs) {
  const LoadedRecipe recipe = recipe_of(source, arguments);
  if (!wants_ranks(recipe.options.accelerator)) return std::nullopt;
  check_ranks(recipe.options, recipe.resolved);
  return launch_ranks(recipe.options.accelerator, {verbs.argv(), "", verbs.json()});
}

MeshModel load_mesh_model(const std::string& source, const MeshArguments& arguments,
                          RankSession& session) {
  LoadedRecipe recipe = recipe_of(source, arguments);
  DiskFiles files;
  MeshModel out;
  out.trained.folder = checkpoint_at(files, source);
  out.trained.registry = recipe.registry;
  World world = session.world(recipe.options, recipe.resolved);
  world.has_checkpoint = true;
  out.job = build_training_job(std::move(recipe), world);
  Job& job = *out.job;
  out.trained.step = restore_checkpoint(job, out.trained.folder);
  out.trained.recipe = job.recipe;
  out.trained.resolved = job.resolved;
  out.trained.data = job.data;
  out.trained.fitted_values = job.fitted_values;
  out.trained.data_fingerprint = job.data_fingerprint;
  out.trained.world = job.batches.world;
  return out;
}

}  // namespace accel
