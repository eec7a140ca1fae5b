// sweep.
#include <poll.h>
#include <CLI/CLI.hpp>
#include <memory>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>

#include "checkpoint/run_lock.h"
#include "core/base/activity.h"
#include "core/base/console.h"
#include "core/base/log.h"
#include "core/base/parallel.h"
#include "core/base/text.h"
#include "runner/cli/cli.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/trial.h"
#include "runner/cli/world.h"
#include "runner/launch/rank_process.h"
#include "runner/report/html.h"
#include "runner/report/report.h"
#include "runner/sweep/journal.h"
#include "runner/sweep/sweep_file.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

struct SweepArguments {
  std::string path;      ///< the sweep's file
  std::string config;    ///< a config file; empty: none
  bool dry_run = false;  ///< only list the trials
  bool retry = false;    ///< run failed trials again
};

std::string text_of(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    throw Error(ExitCode::kRecipe, text("'{}' is a folder, and a sweep is a file", path),
                "give a file such as those in docs/sweep.md");
  }
  std::ifstream in(path, std::ios::binary);
  std::string contents((std::istreambuf_iterator<char>(in)), {});
  if (!in) {
    throw Error(ExitCode::kRecipe, text("cannot read the sweep '{}'", path),
                "give a file such as those in docs/sweep.md");
  }
  return contents;
}

/// Checks of the trials' recipes. Each error is reported once, at the value of the sweep that
/// causes it.
class TrialChecks {
 public:
  explicit TrialChecks(const SweepContext& context) : context_(context) {}

  void add(const Trial& trial) {
    try {
      const LoadedRecipe loaded = load_runnable(trial_recipe(context_, trial), context_.folder);
      for (const Diagnostic& warning : loaded.deprecations) add(warning, trial);
      check_ranks(loaded.options, loaded.resolved);
      check_options(loaded, trial);
    } catch (const RecipeError& error) {
      for (const Diagnostic& problem : error.diagnostics()) add(problem, trial);
    }
  }

  void check() const {
    problems_.check();
    print_warnings(problems_.warnings());
  }

 private:
  void add(Diagnostic problem, const Trial& trial) {
    problem.where = position_of(problem.where, trial);
    problems_.add(problem);
  }

  /// Overrides are those of the sweep, then the trial's, then those of sweep_trials.cpp. An error
  /// without a position belongs to the recipe as a whole.
  Span position_of(const Span& where, const Trial& trial) const {
    if (!where.source) return context_.sweep.recipe_position;
    if (where.source->kind != Source::Kind::kArgument) return where;
    const auto number = static_cast<size_t>(where.source->argument - 1);
    const auto& shared = context_.sweep.overrides;
    if (number < shared.size()) {
      return std::next(shared.begin(), static_cast<ptrdiff_t>(number))->second.where;
    }
    const size_t own = number - shared.size();
    return own < trial.values.size() ? trial.values[own].value.where : where;
  }

  /// The position of an option: in the sweep, or in the recipe.
  Span position_of(const LoadedRecipe& loaded, const Trial& trial, const char* section,
                   const char* option) const {
    const Node::Entry* entry = loaded.composition.recipe.find(section);
    if (entry) entry = entry->node.find(option);
    return position_of(entry ? entry->node.where : Span(), trial);
  }

  Span position_of_metric(const std::string& name) const {
    const auto found = context_.sweep.metric_positions.find(name);
    return found == context_.sweep.metric_positions.end() ? context_.sweep.recipe_position
                                                          : found->second;
  }

  void check_options(const LoadedRecipe& loaded, const Trial& trial) {
    const RecipeOptions& recipe = loaded.options;
    if (recipe.checkpoint.resume.kind != ResumeFrom::Kind::kAuto) {
      problems_.error(
          position_of(loaded, trial, "checkpoint", "resume"),
          "the trials of a sweep start from scratch and resume from their own checkpoints",
          "leave 'checkpoint.resume' out");
    }
    if (recipe.accelerator.num_machines > 1) {
      problems_.error(position_of(loaded, trial, "accelerator", "num_machines"),
                      text("a sweep runs on one machine, and the recipe is for {}",
                           recipe.accelerator.num_machines),
                      "leave 'accelerator.num_machines' out, and split the values by hand");
    }
    for (const std::string& name : metrics_of(context_.sweep)) {
      if (!name.starts_with("eval/")) continue;
      if (!has_eval_data(recipe)) {
        problems_.error(position_of_metric(name),
                        text("trials are ranked by '{}', but the recipe has no eval data", name),
                        "add 'data.eval' or 'data.split' to the recipe, or rank by 'train/loss'");
      } else {
        check_evaluated(recipe, name);
      }
    }
  }

  /// A stage that ends before the first evaluation.
  void check_evaluated(const RecipeOptions& recipe, const std::string& name) {
    const std::optional<int64_t> first = stage_end(context_.sweep, 0);
    const Durations& every = recipe.eval.every;
    const bool late = std::all_of(every.begin(), every.end(), [&](const Duration& duration) {
      return duration.unit == Duration::Unit::kSteps && first &&
             duration.value > static_cast<double>(*first);
    });
    if (!first || !late || recipe.eval.at_start) return;
    problems_.error(
        position_of_metric(name),
        text("trials are ranked by '{}' after {} steps, before the first evaluation", name, *first),
        text("set 'eval.every' to at most '{} steps'", *first));
  }

  const SweepContext& context_;
  Diagnostics problems_;
};

/// Runs the pending trials in parallel until the sweep ends or is stopped.
class SweepRun {
 public:
  SweepRun(const SweepContext& context, const std::vector<Trial>& trials, SweepProgress& progress,
           SweepJournal& journal)
      : context_(context), trials_(trials), progress_(progress), journal_(journal) {}

  /// Whether the sweep finished. Throws Error (kInUse).
  bool run() {
    Activity shown("running trials", "trials");
    while (true) {
      shown.progress(ended_, 0);
      if (!stopping_) start_waiting();
      if (running_.empty()) break;
      wait();
      reap();
    }
    if (in_use_.empty()) return !stopping_;
    throw Error(ExitCode::kInUse,
                text("the folder of {} is in use by another process: see '{}/logs/{}.log'", in_use_,
                     context_.folder, in_use_),
                "stop that process, then continue with the same command");
  }

 private:
  void start_waiting() {
    const size_t stage = progress_.stage();
    for (const size_t trial : progress_.waiting()) {
      if (running_.size() >= static_cast<size_t>(context_.sweep.parallel)) return;
      const bool runs = std::any_of(running_.begin(), running_.end(),
                                    [&](const auto& p) { return p.trial() == trial; });
      if (runs) continue;
      say(text("{} starts{}", trials_[trial].name, stage_text(stage)));
      running_.emplace_back(context_, trials_[trial], trial, stage);
    }
  }

  std::string stage_text(size_t stage) const {
    if (progress_.stages() == 1) return "";
    return ": stage " + std::to_string(stage + 1) + " of " + std::to_string(progress_.stages());
  }

  void wait() {
    pollfd ends[] = {{signals_.user_fd(), POLLIN, 0}, {signals_.child_fd(), POLLIN, 0}};
    constexpr int kMilliseconds = 1000;
    ::poll(ends, 2, kMilliseconds);
    while (const std::optional<int> signal = signals_.next_of_user()) {
      if (stopping_) {  // a second time
        running_.clear();
        throw Error(ExitCode::kInterrupted,
                    text("the sweep was stopped twice by signal {}", *signal));
      }
      say("stopping the running trials");
      stop();
    }
    signals_.forget_children();
  }

  void stop() {
    stopping_ = true;
    for (const TrialProcess& trial : running_) trial.stop();
  }

  void reap() {
    for (auto at = running_.begin(); at != running_.end();) {
      if (!at->ended()) {
        ++at;
        continue;
      }
      const std::optional<StageResult> result = at->result();
      const std::string& name = trials_[at->trial()].name;
      if (at->is_in_use()) in_use_ = name;
      at = running_.erase(at);
      if (!result || (result->failed && stopping_)) {
        say(text("{} stopped", name));
        if (!stopping_) stop();  // the deadline applies to all trials
        continue;
      }
      ++ended_;
      journal_.add(*result);
      progress_.add(*result);
      report(name, *result);
    }
  }

  void report(const std::string& name, const StageResult& result) const {
    if (result.failed) {
      warn(text("{} failed with exit code {}: see '{}/logs/{}.log'", name, result.code,
                context_.folder, name));
      return;
    }
    if (result.missed()) {
      warn(text("{} missed an expectation of its recipe: see '{}/logs/{}.log'", name,
                context_.folder, name));
    }
    std::string line = text("{} done at step {}", name, result.step);
    for (const auto& [metric, value] : result.values) {
      line += "  " + metric + " " + number_words(value);
    }
    say(line + stage_text(result.stage));
    for (const std::string& metric : metrics_of(context_.sweep)) {
      if (result.values.contains(metric)) continue;
      warn(text("{} has no '{}', by which trials are ranked", name, metric));
    }
  }

  const SweepContext& context_;
  const std::vector<Trial>& trials_;
  SweepProgress& progress_;
  SweepJournal& journal_;
  LaunchSignals signals_;
  std::list<TrialProcess> running_;
  bool stopping_ = false;
  std::string in_use_;  ///< a trial in whose folder another process trains
  int64_t ended_ = 0;
};

/// Writes a report on the best trials.
void report_sweep(const SweepContext& context, const std::vector<Trial>& trials,
                  const SweepProgress& progress) {
  constexpr size_t kMost = 40;
  std::vector<std::string> folders;
  for (const size_t trial : progress.ranking()) {
    const std::string folder = context.folder + "/" + trials[trial].name;
    if (folders.size() < kMost && fs::exists(folder + "/metrics.jsonl")) folders.push_back(folder);
  }
  if (folders.empty()) return;
  try {
    say(text("report {}", write_report(folders, context.folder + "/report.html")));
  } catch (const Error& error) {
    warn(text("cannot write the report of the sweep: {}", error.what()));
  }
}

/// Threads per process, so that parallel trials do not oversubscribe the cores.
int64_t threads_for(const SweepOptions& sweep) {
  return sweep.parallel == 1
             ? 0
             : std::max<int64_t>(1, static_cast<int64_t>(usable_cores()) / sweep.parallel);
}

bool sets_threads(const SweepContext& context, const Trial& trial) {
  const LoadedRecipe loaded = load_recipe(trial_recipe(context, trial), context.folder);
  const AcceleratorSection& section = loaded.options.accelerator;
  return section.num_cpu_threads_per_process || wants_ranks(section);
}

ExitCode run_trials(const SweepContext& context, const std::vector<Trial>& trials, bool retry) {
  fs::create_directories(context.folder + "/logs");
  const RunLock lock(context.folder);
  SweepJournal journal(context.folder + "/sweep.jsonl", context.sweep, trials);
  SweepProgress progress(context.sweep, trials.size());
  for (const StageResult& result : journal.results()) {
    if (!retry || !result.failed) progress.add(result);
  }
  const bool finished = SweepRun(context, trials, progress, journal).run();
  for (const std::string& line : ranking_lines(context.sweep, trials, progress)) say_result(line);
  report_sweep(context, trials, progress);
  if (!finished) {
    say("stopped: resume with the same command");
    return ExitCode::kInterrupted;
  }
  if (progress.entrants(progress.stages() - 1).empty()) {
    throw Error(ExitCode::kOther, "no trial was promoted to the last stage",
                "evaluate each trial in the earlier stages: lower 'eval.every'");
  }
  const bool good = !progress.any_failed() && !progress.any_missed();
  return good ? ExitCode::kDone : ExitCode::kOther;
}

/// Runs or resumes a sweep in runs/NAME. Throws before the first trial when a trial's recipe is
/// wrong. kOther: a trial failed or missed an expectation; kInterrupted: it can be resumed.
ExitCode sweep_verb(const SweepArguments& arguments) {
  const SweepOptions sweep = read_sweep(arguments.path, text_of(arguments.path));
  print_warnings(sweep.deprecations);
  const std::vector<Trial> trials = trials_of(sweep);
  SweepContext context{sweep, "runs/" + sweep.name, arguments.config};
  TrialChecks checks(context);
  for (const Trial& trial : trials) checks.add(trial);
  checks.check();
  if (!fs::exists(context.folder + "/sweep.jsonl")) check_metrics(context, trials);
  if (arguments.dry_run) {
    for (const std::string& line : trial_lines(trials)) say(line);
    return ExitCode::kDone;
  }
  if (!sets_threads(context, trials.front())) context.cpu_threads = threads_for(sweep);
  return run_trials(context, trials, arguments.retry);
}

}  // namespace

void add_sweep_verb(VerbTable& verbs) {
  const auto to = std::make_shared<SweepArguments>();
  CLI::App& verb = verbs.add("sweep", "run a recipe with many values, trials in parallel",
                             [to] { return sweep_verb(*to); });
  verb.add_option("file", to->path, "the sweep: see docs/sweep.md")->required();
  add_config(verb, to->config, "where to run each trial");
  verb.add_flag("--dry-run", to->dry_run, "list the trials without running them");
  verb.add_flag("--retry", to->retry, "run failed trials again");
}

}  // namespace accel
