// run, launch, resume and smoke.
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "core/log.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/trial.h"
#include "runner/cli/world.h"
#include "runner/job/job.h"
#include "runner/job/recipe_diff.h"
#include "runner/launch/config_file.h"
#include "runner/launch/launch_flags.h"
#include "runner/launch/rank_place.h"
#include "runner/loop/run.h"
#include "runner/loop/run_folder.h"
#include "runner/plan/forecast.h"
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

/// A recipe and what is to be done with it.
struct Order {
  LoadedRecipe recipe;
  RunRequest request;
};

void check_consents(const RecipeArguments& arguments) {
  check_allowed(arguments.allowed, RecipeOptions::schema().info(), components());
}

Order load_for_run(const RecipeArguments& arguments) {
  check_consents(arguments);
  Order order{load_runnable(arguments, arguments.run_dir), {}};
  order.request.run_dir =
      arguments.run_dir.empty() ? "runs/" + order.recipe.options.name : arguments.run_dir;
  order.request.allowed = arguments.allowed;
  order.request.stop_after = arguments.stop_after;
  return order;
}

Order load_for_resume(const RecipeArguments& arguments) {
  check_consents(arguments);
  RecipeArguments inner = arguments;
  inner.path = (fs::path(arguments.path) / "recipe.yaml").string();
  if (!fs::exists(inner.path)) {
    const bool sweep = fs::exists(fs::path(arguments.path) / "sweep.jsonl");
    throw Error(ExitCode::kRecipe,
                "'" + arguments.path + "' is no run folder: it has no recipe.yaml",
                sweep ? "a sweep goes on with the command that it began with: accel-run sweep FILE"
                      : "give the folder that 'run' printed, such as runs/NAME");
  }
  Order order{load_runnable(inner, arguments.path), {}};
  order.request.run_dir = arguments.path;
  order.request.must_resume = true;
  order.request.allowed = arguments.allowed;
  for (const std::string& text : arguments.overrides) {
    order.request.allowed.push_back(key_of(text));
  }
  return order;
}

/// Nothing where this process is to do the work itself.
std::optional<ExitCode> launched(const Order& order, const RecipeArguments& arguments,
                                 const std::vector<std::string>& argv) {
  const AcceleratorSection& section = order.recipe.options.accelerator;
  if (!wants_ranks(section)) return std::nullopt;
  check_ranks(order.recipe.options, order.recipe.resolved);
  tell_layers(arguments, order.recipe);
  check_run_folder(order.request.run_dir);
  return launch_ranks(section, {argv, order.request.run_dir, arguments.json});
}

ExitCode carry_out(Order order, const RecipeArguments& arguments, RankSession& session) {
  if (!is_rank()) {
    tell_layers(arguments, order.recipe);
    check_run_folder(order.request.run_dir);
  }
  LoadedRecipe& recipe = order.recipe;
  World world = session.world(recipe.options, recipe.resolved);
  world.has_checkpoint = has_checkpoint(recipe.options, order.request);
  const auto job =
      build_job(std::move(recipe.options), std::move(recipe.resolved), *recipe.registry, world);
  if (job->recipe.log.plan && job->group->is_main()) {
    order.request.forecast = forecast(*job, order.request.run_dir);
  }
  return run_job(*job, order.request);
}

bool sets(const std::vector<std::string>& overrides, const std::string& section,
          const std::string& key) {
  return std::any_of(overrides.begin(), overrides.end(), [&](const std::string& text) {
    const std::string name = key_of(text);
    return name == section || name == section + "." + key;
  });
}

/// Takes the overrides from the end of `words`, before which there are recipes.
std::vector<std::string> overrides_behind(std::vector<std::string>& words) {
  const auto is_override = [](const std::string& word) {
    std::error_code none;
    const bool reads_so = word.starts_with('~') || word.find('=') != word.npos;
    return reads_so && !fs::exists(word, none);
  };
  const auto first = std::find_if(words.begin(), words.end(), is_override);
  const auto stray = std::find_if_not(first, words.end(), is_override);
  if (stray != words.end()) {
    throw Error(ExitCode::kRecipe, "'" + *stray + "' comes behind '" + *first + "'",
                "give the recipes first, then key=value for all of them");
  }
  std::vector<std::string> overrides(first, words.end());
  words.erase(first, words.end());
  if (words.empty()) {
    throw Error(ExitCode::kRecipe, "there is no recipe before '" + overrides.front() + "'",
                "give a recipe, then key=value");
  }
  return overrides;
}

/// The recipe as `smoke` runs it: small, without expectations, saving when it stops. Throws what is
/// wrong with it.
RecipeArguments smoke_arguments(const RecipeArguments& given, const std::string& path) {
  RecipeArguments arguments = given;
  arguments.path = path;
  arguments.smoke = true;
  std::vector<std::string>& overrides = arguments.overrides;
  overrides.emplace_back("~profile");  // of steps that may not be among the few that are made
  const LoadedRecipe loaded = load_runnable(arguments);
  tell_layers(arguments, loaded);
  const bool length =
      sets(given.overrides, "train", "until") || loaded.options.smoke.contains("train.until");
  overrides.insert(overrides.end(), {"checkpoint.every=never", "checkpoint.resume=auto",
                                     "checkpoint.resume_step=auto", "~expect"});
  if (!length) overrides.emplace_back("train.until=4 steps");
  return arguments;
}

void smoke_one(const RecipeArguments& arguments) {
  const std::string& path = arguments.path;
  const ScratchFolder scratch;
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

std::optional<RecipeArguments> launch_arguments(const std::vector<std::string>& words, int first) {
  Diagnostics problems;
  LaunchLine line = read_launch_line(words, first, problems);
  if (line.help) {
    std::cout << launch_help();
    return std::nullopt;
  }
  problems.check();
  for (const std::string& warning : line.warnings) warn(warning);
  RecipeArguments arguments;
  arguments.path = line.recipe;
  arguments.config = line.config_file;
  if (arguments.config.empty() && !line.on_cpu) {
    arguments.config = find_default_config(&environment_variable);
  }
  arguments.on_cpu = line.on_cpu;
  arguments.flags = {std::move(line.flags)};
  arguments.overrides = std::move(line.overrides);
  arguments.first_override = line.first_override;
  return arguments;
}

std::optional<ExitCode> launch_run(const RecipeArguments& arguments,
                                   const std::vector<std::string>& argv) {
  return launched(load_for_run(arguments), arguments, argv);
}

std::optional<ExitCode> launch_resume(const RecipeArguments& arguments,
                                      const std::vector<std::string>& argv) {
  return launched(load_for_resume(arguments), arguments, argv);
}

ExitCode run_verb(const RecipeArguments& arguments, RankSession& session) {
  return carry_out(load_for_run(arguments), arguments, session);
}

ExitCode resume_verb(const RecipeArguments& arguments, RankSession& session) {
  return carry_out(load_for_resume(arguments), arguments, session);
}

ExitCode smoke_verb(RecipeArguments arguments, std::vector<std::string> words,
                    const std::vector<std::string>& argv) {
  arguments.overrides = overrides_behind(words);
  if (!arguments.overrides.empty()) {
    const auto first = std::find(argv.begin(), argv.end(), arguments.overrides.front());
    arguments.first_override = static_cast<int>(first - argv.begin());
  }
  std::vector<RecipeArguments> all;
  for (const std::string& path : words) all.push_back(smoke_arguments(arguments, path));
  for (const RecipeArguments& each : all) smoke_one(each);
  return ExitCode::kDone;
}

}  // namespace accel
