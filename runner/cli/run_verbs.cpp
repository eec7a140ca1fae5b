// run, launch, resume and smoke.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <string_view>

#include "compat/accelerate/config_file.h"
#include "compat/accelerate/launch_flags.h"
#include "core/base/console.h"
#include "core/base/log.h"
#include "core/base/regular_file.h"
#include "core/base/text.h"
#include "parallel/rendezvous/launcher_channel.h"
#include "parallel/rendezvous/rank_info.h"
#include "runner/cli/cli.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/trial.h"
#include "runner/cli/world.h"
#include "runner/submit/shell_word.h"
#include "track/record.h"
#include "train/job/job.h"
#include "train/loop/run.h"
#include "train/loop/run_folder.h"
#include "train/recipe/recipe_diff.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

constexpr auto kNewFlag = "--new";
constexpr auto kFreshFlag = "--fresh";
constexpr auto kOldDirFlag = "--old-dir";
constexpr auto kMutedFlag = "--muted";

/// "optimizer.lr" of "optimizer.lr=0.1", "callbacks" of "callbacks+={...}" or "~callbacks".
std::string key_of(const std::string& override_text) {
  std::string key = override_text.substr(0, override_text.find('='));
  if (key.starts_with('~')) key.erase(0, 1);
  if (key.ends_with('+') || key.ends_with('!')) key.pop_back();
  return key;
}

/// A loaded recipe and its run.
struct RunOrder {
  LoadedRecipe recipe;
  RunRequest request;
};

void check_consents(const RecipeArguments& arguments) {
  check_allowed(arguments.allowed, RecipeOptions::schema().info(), components());
}

/// Consents to changes of these keys, deprecated names among them.
void allow(const std::vector<std::string>& keys, RunOrder& order) {
  for (const std::string& key : keys) {
    order.request.allowed.push_back(current_key(key, order.recipe));
  }
}

/// "accel-run digits.yaml optimizer.lr=1e-3": the words of a command line after the program.
std::string command_text(const std::vector<std::string>& words) {
  return "accel-run " + joined(words, " ", shell_word);
}

bool is_inside(const std::string& path, const std::string& folder) {
  const auto whole = [](const std::string& each) {
    std::error_code error;
    return fs::weakly_canonical(each, error);
  };
  const fs::path outer = whole(folder), inner = whole(path);
  return std::mismatch(outer.begin(), outer.end(), inner.begin(), inner.end()).first == outer.end();
}

/// The number of a folder must be chosen once for all ranks.
void check_one_launcher(const RecipeArguments& arguments, const AcceleratorSection& section) {
  if (!is_rank() && section.num_machines == 1) return;
  throw Error(ExitCode::kRecipe,
              text("'{}' is for a run on one machine whose ranks accel-run starts",
                   arguments.new_run ? "--new" : "--fresh"),
              "give the run another name: name=NAME");
}

/// Throws for files that `--fresh` would move away under the run's hands.
void check_fresh(const RecipeArguments& arguments, const RunOrder& order) {
  const ResumeFrom& resume = order.recipe.options.checkpoint.resume;
  const bool from_path = resume.kind == ResumeFrom::Kind::kPath;
  for (const std::string& path : {arguments.path, from_path ? resume.path.text : std::string()}) {
    if (path.empty() || !fs::exists(path) || !is_inside(path, order.request.run_dir)) continue;
    throw Error(ExitCode::kRecipe,
                text("'--fresh' moves '{}' away, and '{}' is in it", order.request.run_dir, path),
                "use --new");
  }
}

/// The overrides of a run: those given, and the numbered name under `--new`.
RecipeArguments with_new_name(const RecipeArguments& arguments, const std::string& name) {
  RecipeArguments out = arguments;
  out.overrides.push_back("name=" + name);
  return out;
}

RunOrder load_for_run(const RecipeArguments& arguments) {
  check_consents(arguments);
  RunOrder order{load_runnable(arguments, arguments.run_dir), {}};
  if (arguments.new_run || arguments.fresh) {
    check_one_launcher(arguments, order.recipe.options.accelerator);
  }
  const std::string usual = "runs/" + order.recipe.options.name;
  if (const std::string free = new_run_dir(usual); arguments.new_run && free != usual) {
    const std::string name = fs::path(free).filename().string();
    order.recipe = load_runnable(with_new_name(arguments, name));
  }
  order.request.run_dir =
      arguments.run_dir.empty() ? "runs/" + order.recipe.options.name : arguments.run_dir;
  allow(arguments.allowed, order);
  order.request.stop_after = arguments.stop_after;
  order.request.old_dir = arguments.old_dir;
  if (arguments.fresh) {
    check_fresh(arguments, order);
    order.request.old_dir = old_run_dir(order.request.run_dir);
  }
  return order;
}

/// The commands that a refusal of a changed recipe offers to the user of `argv`.
void offer_commands(const std::vector<std::string>& argv, RunOrder& order) {
  // Of several command lines, none is the user's.
  const bool external = is_rank() && !find_launcher_channel(&environment_variable);
  if (external || order.recipe.options.accelerator.num_machines > 1) return;
  RunAgain& again = order.request.again;
  again.resume = again.start = command_text({argv.begin() + 1, argv.end()});
  again.new_dir = new_run_dir(order.request.run_dir);
  again.old_dir = old_run_dir(order.request.run_dir);
}

/// The command line of the ranks: without the options that choose a folder, which is chosen now.
std::vector<std::string> argv_of_ranks(const std::vector<std::string>& argv,
                                       const RecipeArguments& arguments, const RunOrder& order) {
  std::vector<std::string> out;
  std::copy_if(argv.begin(), argv.end(), std::back_inserter(out),
               [](const std::string& word) { return word != kNewFlag && word != kFreshFlag; });
  // The default verb has no options before the recipe.
  if (arguments.new_run) out.push_back("name=" + order.recipe.options.name);
  if (arguments.fresh) out.insert(out.end(), {kOldDirFlag, order.request.old_dir});
  return out;
}

/// Whether another value of a key moves samples between training and evaluation. An override of
/// `resume` is consent to the change of its key, but not to an evaluation on trained samples.
bool moves_held_out(const std::string& key, const RecipeOptions& options) {
  if (key.starts_with("data.split")) return true;
  if (!options.data.split.eval || !key.starts_with("data.train")) return false;
  return key.ends_with(".limit") || key.ends_with(".head") || key.ends_with(".path");
}

RunOrder load_for_resume(const RecipeArguments& arguments) {
  check_consents(arguments);
  RecipeArguments inner = arguments;
  inner.path = (fs::path(arguments.path) / "recipe.yaml").string();
  if (!fs::exists(inner.path)) {
    const bool sweep = fs::exists(fs::path(arguments.path) / "sweep.jsonl");
    throw Error(ExitCode::kRecipe,
                text("'{}' is not a run folder: it has no recipe.yaml", arguments.path),
                sweep ? "resume a sweep with the command that started it: accel-run sweep FILE"
                      : "give the folder that 'run' printed, such as runs/NAME");
  }
  require_regular_file(inner.path);
  RunOrder order{load_runnable(inner, arguments.path), {}};
  order.request.run_dir = arguments.path;
  std::vector<std::string> words = {"resume", arguments.path};
  words.insert(words.end(), arguments.overrides.begin(), arguments.overrides.end());
  order.request.again.resume = command_text(words);
  words.erase(words.begin());
  words.front() = inner.path;
  order.request.again.start = command_text(words);
  order.request.again.new_dir = new_run_dir("runs/" + order.recipe.options.name);
  order.request.must_resume = true;
  std::vector<std::string> allowed = arguments.allowed;
  for (const std::string& word : arguments.overrides) {
    if (!moves_held_out(key_of(word), order.recipe.options)) allowed.push_back(key_of(word));
  }
  allow(allowed, order);
  // The recipe in the run's folder was written by accel-run: its user cannot mend it.
  std::erase_if(order.recipe.deprecations, [](const Diagnostic& warning) {
    return warning.where.source && warning.where.source->kind == Source::Kind::kFile;
  });
  return order;
}

/// Starts the ranks; nothing where this process trains itself.
std::optional<ExitCode> launched(const RunOrder& order, const RecipeArguments& arguments,
                                 const std::vector<std::string>& argv) {
  const AcceleratorSection& section = order.recipe.options.accelerator;
  if (!wants_ranks(section)) return std::nullopt;
  check_ranks(order.recipe.options, order.recipe.resolved);
  report_layers(arguments, order.recipe);
  // Another machine may join a run whose rank 0 holds the folder.
  if (section.machine_rank == 0) check_run_folder(order.request.run_dir);
  return launch_ranks(
      section, {argv_of_ranks(argv, arguments, order), order.request.run_dir, arguments.json});
}

/// Whether this process is rank 0 of another launcher: no process before it has printed warnings.
bool is_first_of_outside() {
  const std::optional<RankInfo> place = find_rank(&environment_variable);
  return is_rank() && place->rank == 0 && !find_launcher_channel(&environment_variable);
}

ExitCode train(RunOrder order, const RecipeArguments& arguments, RankSession& session) {
  be_quiet(arguments.quiet);
  if (!is_rank() || is_first_of_outside()) report_layers(arguments, order.recipe);
  if (!is_rank()) check_run_folder(order.request.run_dir);
  LoadedRecipe& recipe = order.recipe;
  World world = session.world(recipe.options, recipe.resolved);
  world.has_checkpoint = has_checkpoint(recipe.options, order.request);
  world.allowed = order.request.allowed;
  const auto job = build_training_job(std::move(recipe), world);
  return run_training_job(*job, std::move(order.request));
}

bool sets(const std::vector<std::string>& overrides, const std::string& section,
          const std::string& key) {
  return std::any_of(overrides.begin(), overrides.end(), [&](const std::string& text) {
    const std::string name = key_of(text);
    return name == section || name == section + "." + key;
  });
}

/// Removes the overrides that follow the recipes in `words` and returns them.
std::vector<std::string> take_overrides(std::vector<std::string>& words) {
  const auto is_override = [](const std::string& word) {
    std::error_code none;
    const bool reads_so = word.starts_with('~') || word.find('=') != word.npos;
    return reads_so && !fs::exists(word, none);
  };
  const auto first = std::find_if(words.begin(), words.end(), is_override);
  const auto stray = std::find_if_not(first, words.end(), is_override);
  if (stray != words.end()) {
    throw Error(ExitCode::kRecipe, text("'{}' comes after '{}'", *stray, *first),
                "give the recipes first, then key=value for all of them");
  }
  std::vector<std::string> overrides(first, words.end());
  words.erase(first, words.end());
  if (words.empty()) {
    throw Error(ExitCode::kRecipe, text("there is no recipe before '{}'", overrides.front()),
                "give a recipe, then key=value");
  }
  return overrides;
}

/// The recipe as `smoke` runs it: few steps, no expectations, a checkpoint at the stop. Throws
/// RecipeError.
RecipeArguments smoke_arguments(const RecipeArguments& given, const std::string& path) {
  RecipeArguments arguments = given;
  arguments.path = path;
  arguments.smoke = true;
  arguments.quiet = true;
  std::vector<std::string>& overrides = arguments.overrides;
  overrides.emplace_back("~profile");  // its steps may be beyond the end
  const LoadedRecipe loaded = load_runnable(arguments);
  report_layers(arguments, loaded);
  const bool length =
      sets(given.overrides, "train", "until") || loaded.options.smoke.contains("train.until");
  overrides.insert(overrides.end(), {"checkpoint.every=never", "checkpoint.resume=auto",
                                     "checkpoint.resume_step=auto", "~expect"});
  if (!length) overrides.emplace_back("train.until=4 steps");
  return arguments;
}

/// Hides the screens of trials, whose folders are temporary.
class QuietTrials {
 public:
  QuietTrials() { be_quiet(); }
  ~QuietTrials() {
    be_quiet(false);
    be_silent(false);
  }
  QuietTrials(const QuietTrials&) = delete;
  QuietTrials& operator=(const QuietTrials&) = delete;
};

void smoke_one(const RecipeArguments& arguments) {
  const std::string& path = arguments.path;
  const ScratchFolder scratch;
  const fs::path straight = scratch.path() / "straight", resumed = scratch.path() / "resumed";
  int64_t steps = 0, half = 0;
  {
    const QuietTrials quiet;
    steps = run_trial(arguments, straight).steps;
    half = std::max<int64_t>(1, steps / 2);
    be_silent();  // the first trial has printed the warnings
    run_trial(arguments, resumed, half);
    run_trial(arguments, resumed);
  }
  if (const auto found = first_difference(straight / "metrics.jsonl", resumed / "metrics.jsonl")) {
    throw Error(
        ExitCode::kOther,
        text("'{}' resumed at step {} differs from the straight run: {} (straight and resumed)",
             path, half, *found));
  }
  say_result(text("smoke {}: {} steps, bit-identical when resumed at step {}", path, steps, half));
}

/// The arguments of `launch`: `words` follow the verb, the first at position `first` of argv.
/// Null: `--help` was given, and is printed.
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

/// Runs each recipe in `words`, with the overrides that follow them: straight, then stopped
/// half-way and resumed. The records must be bit-identical. All recipes are checked before the
/// first runs.
ExitCode smoke(RecipeArguments arguments, std::vector<std::string> words, const VerbTable& verbs) {
  arguments.json = verbs.json();
  arguments.overrides = take_overrides(words);
  if (!arguments.overrides.empty()) {
    arguments.first_override = verbs.position_of(arguments.overrides.front());
  }
  std::vector<RecipeArguments> all;
  for (const std::string& path : words) all.push_back(smoke_arguments(arguments, path));
  for (const RecipeArguments& each : all) smoke_one(each);
  return ExitCode::kDone;
}

void add_allow(CLI::App& verb, RecipeArguments& to) {
  add_repeated(verb, "--allow", to.allowed, "a recipe key that may differ from the checkpoint's");
}

void add_run(VerbTable& verbs) {
  const auto to = std::make_shared<RecipeArguments>();
  const auto load = [to, &verbs] {
    if (to->overrides.empty() && to->new_run) to->first_override = verbs.position_of(kNewFlag);
    RunOrder order = load_for_run(*to);
    if (to->run_dir.empty()) offer_commands(verbs.argv(), order);
    return order;
  };
  CLI::App& run = verbs.add(
      "run", "train a recipe (the verb may be omitted)",
      verbs.training({[to, load, &verbs] { return launched(load(), *to, verbs.argv()); },
                      [to, load](RankSession& session) { return train(load(), *to, session); }}));
  verbs.add_recipe(run, *to, "a recipe, YAML or TOML, or builtin:NAME");
  add_allow(run, *to);
  CLI::Option* anew = run.add_flag(kNewFlag, to->new_run,
                                   "start a new run: number its folder when runs/NAME exists");
  run.add_flag(kFreshFlag, to->fresh, "start over: rename the folder of the old run to NAME-old")
      ->excludes(anew);
  add_config(run, to->config);
  // Set by `smoke`, `sweep` and `verify-resume` for the ranks that they start.
  run.add_option("--run-dir", to->run_dir)->group("");
  run.add_option("--stop-after", to->stop_after)->group("");
  run.add_flag("--smoke-section", to->smoke)->group("");
  run.add_flag(kMutedFlag, to->quiet)->group("");
  // Set by the launcher for its ranks in place of --fresh.
  run.add_option(kOldDirFlag, to->old_dir)->group("");
}

void add_launch(VerbTable& verbs) {
  struct LaunchArguments {
    RecipeArguments recipe;
    const CLI::App* verb = nullptr;
  };
  const auto to = std::make_shared<LaunchArguments>();
  const auto start = [to, &verbs]() -> std::optional<ExitCode> {
    const std::vector<std::string> words = to->verb->remaining();
    const auto first = static_cast<int>(verbs.argv().size() - words.size());
    auto arguments = launch_arguments(words, first);
    if (!arguments) return ExitCode::kDone;
    to->recipe = std::move(*arguments);
    to->recipe.json = verbs.json();
    return launched(load_for_run(to->recipe), to->recipe, verbs.argv());
  };
  CLI::App& launch =
      verbs.add("launch", "train as 'accelerate launch' does: its flags, then a recipe",
                verbs.training({start, [to](RankSession& session) {
                                  return train(load_for_run(to->recipe), to->recipe, session);
                                }}));
  to->verb = &launch;
  // Accelerate's flags are parsed by compat.
  launch.fallthrough(false);
  launch.set_help_flag();
  launch.prefix_command();
}

void add_resume(VerbTable& verbs) {
  const auto to = std::make_shared<RecipeArguments>();
  CLI::App& resume = verbs.add(
      "resume", "resume a run from its newest checkpoint",
      verbs.training(
          {[to, &verbs] { return launched(load_for_resume(*to), *to, verbs.argv()); },
           [to](RankSession& session) { return train(load_for_resume(*to), *to, session); }}));
  verbs.add_recipe(resume, *to, "the run folder");
  add_allow(resume, *to);
}

void add_smoke(VerbTable& verbs) {
  struct SmokeArguments {
    RecipeArguments recipe;
    std::vector<std::string> words;
  };
  const auto to = std::make_shared<SmokeArguments>();
  CLI::App& verb = verbs.add(
      "smoke", "train recipes for a few steps, with a save and a resume",
      verbs.training({[] { return std::nullopt; },
                      [to, &verbs](RankSession&) { return smoke(to->recipe, to->words, verbs); }}));
  verb.add_option("recipes", to->words, "recipes, then key=value for all of them")->required();
  add_config(verb, to->recipe.config);
}

}  // namespace

void add_run_verbs(VerbTable& verbs) {
  add_run(verbs);
  add_launch(verbs);
  add_resume(verbs);
  add_smoke(verbs);
}

}  // namespace accel
