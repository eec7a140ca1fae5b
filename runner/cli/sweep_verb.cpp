// sweep.
#include "runner/cli/sweep_verb.h"

#include <poll.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <list>
#include <sstream>

#include "core/log.h"
#include "runner/checkpoint/run_lock.h"
#include "runner/cli/load_recipe.h"
#include "runner/cli/sweep_metrics.h"
#include "runner/cli/sweep_trials.h"
#include "runner/cli/world.h"
#include "runner/job/torch_setup.h"
#include "runner/launch/launch_signals.h"
#include "runner/report/write_report.h"
#include "runner/sweep/journal.h"
#include "runner/sweep/sweep_table.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

std::string text_of(const std::string& path) {
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    throw Error(ExitCode::kRecipe, "'" + path + "' is a folder, and a sweep is a file",
                "give a file such as those in docs/sweep.md");
  }
  std::ifstream in(path, std::ios::binary);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  if (!in) {
    throw Error(ExitCode::kRecipe, "cannot read the sweep '" + path + "'",
                "give a file such as those in docs/sweep.md");
  }
  return text;
}

/// Everything that is wrong with the trials' recipes, each problem once and at the sweep's own
/// value where that is what is wrong.
class TrialChecks {
 public:
  explicit TrialChecks(const SweepPlace& place) : place_(place) {}

  void add(const Trial& trial) {
    try {
      const LoadedRecipe loaded = load_runnable(trial_recipe(place_, trial), place_.folder);
      check_ranks(loaded.options, loaded.resolved);
      check_options(loaded, trial);
    } catch (const RecipeError& error) {
      for (const Diagnostic& problem : error.diagnostics()) {
        problems_.error(place_of(problem.where, trial), problem.message, problem.hint);
      }
    }
  }

  void check() const { problems_.check(); }

 private:
  /// Overrides are the sweep's own for all, then the trial's, then what sweep_trials.cpp adds. What
  /// has no place is the recipe as a whole.
  Span place_of(const Span& where, const Trial& trial) const {
    if (!where.source) return place_.sweep.recipe_place;
    if (where.source->kind != Source::Kind::kArgument) return where;
    const auto number = static_cast<size_t>(where.source->argument - 1);
    const auto& shared = place_.sweep.overrides;
    if (number < shared.size()) {
      return std::next(shared.begin(), static_cast<ptrdiff_t>(number))->second.where;
    }
    const size_t own = number - shared.size();
    return own < trial.values.size() ? trial.values[own].value.where : where;
  }

  /// The place of an option: the sweep's, or that in the recipe.
  Span place_of(const LoadedRecipe& loaded, const Trial& trial, const char* section,
                const char* option) const {
    const Node::Entry* entry = loaded.composition.recipe.find(section);
    if (entry) entry = entry->node.find(option);
    return place_of(entry ? entry->node.where : Span(), trial);
  }

  Span place_of_metric(const std::string& name) const {
    const auto found = place_.sweep.metric_places.find(name);
    return found == place_.sweep.metric_places.end() ? place_.sweep.recipe_place : found->second;
  }

  void check_options(const LoadedRecipe& loaded, const Trial& trial) {
    const RecipeOptions& recipe = loaded.options;
    if (recipe.checkpoint.resume.kind != ResumeFrom::Kind::kAuto) {
      problems_.error(place_of(loaded, trial, "checkpoint", "resume"),
                      "a sweep's trials start anew, and go on from their own checkpoints",
                      "leave 'checkpoint.resume' out");
    }
    if (recipe.accelerator.num_machines > 1) {
      problems_.error(place_of(loaded, trial, "accelerator", "num_machines"),
                      "a sweep runs on one machine, and the recipe is for " +
                          std::to_string(recipe.accelerator.num_machines),
                      "leave 'accelerator.num_machines' out, and share the values out by hand");
    }
    for (const std::string& name : metrics_of(place_.sweep)) {
      if (!name.starts_with("eval/")) continue;
      if (recipe.data.eval.parts.empty()) {
        problems_.error(place_of_metric(name),
                        "trials are compared by '" + name + "', but the recipe has no eval data",
                        "add 'data.eval' to the recipe, or let 'ranking' go by 'train/loss'");
      } else {
        check_evaluated(recipe, name);
      }
    }
  }

  /// What is known beforehand: a stage that ends before any evaluation.
  void check_evaluated(const RecipeOptions& recipe, const std::string& name) {
    const std::optional<int64_t> first = stage_end(place_.sweep, 0);
    const Durations& every = recipe.eval.every;
    const bool late = std::all_of(every.begin(), every.end(), [&](const Duration& duration) {
      return duration.unit == Duration::Unit::kSteps && first &&
             duration.value > static_cast<double>(*first);
    });
    if (!first || !late || recipe.eval.at_start) return;
    problems_.error(place_of_metric(name),
                    "trials are compared by '" + name + "' after " + std::to_string(*first) +
                        " steps, but there is no evaluation until then",
                    "let 'eval.every' be at most '" + std::to_string(*first) + " steps'");
  }

  const SweepPlace& place_;
  Diagnostics problems_;
};

/// Runs what waits, a few at a time, until the sweep is over or is to stop.
class SweepRun {
 public:
  SweepRun(const SweepPlace& place, const std::vector<Trial>& trials, SweepProgress& progress,
           SweepJournal& journal)
      : place_(place), trials_(trials), progress_(progress), journal_(journal) {}

  /// Whether it came to the end.
  bool run() {
    while (true) {
      if (!stopping_) start_waiting();
      if (running_.empty()) return !stopping_;
      wait();
      reap();
    }
  }

 private:
  void start_waiting() {
    const size_t stage = progress_.stage();
    for (const size_t trial : progress_.waiting()) {
      if (running_.size() >= static_cast<size_t>(place_.sweep.parallel)) return;
      const bool runs = std::any_of(running_.begin(), running_.end(),
                                    [&](const auto& p) { return p.trial() == trial; });
      if (runs) continue;
      say(trials_[trial].name + " starts" + stage_words(stage));
      running_.emplace_back(place_, trials_[trial], trial, stage);
    }
  }

  std::string stage_words(size_t stage) const {
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
                    "the sweep was stopped twice by signal " + std::to_string(*signal));
      }
      say("stopping the trials that run");
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
      at = running_.erase(at);
      if (!result || (result->failed && stopping_)) {
        say(name + " stopped");
        if (!stopping_) stop();  // its own deadline is the others' too
        continue;
      }
      journal_.add(*result);
      progress_.add(*result);
      tell(name, *result);
    }
  }

  void tell(const std::string& name, const StageResult& result) const {
    if (result.failed) {
      warn(name + " failed with exit code " + std::to_string(result.code) + ": see '" +
           place_.folder + "/logs/" + name + ".log'");
      return;
    }
    const std::string log = "see '" + place_.folder + "/logs/" + name + ".log'";
    if (result.missed()) warn(name + " missed what its recipe's 'expect' says: " + log);
    std::ostringstream line;
    line << name << " done at step " << result.step;
    for (const auto& [metric, value] : result.values) line << "  " << metric << " " << value;
    say(line.str() + stage_words(result.stage));
    for (const std::string& metric : metrics_of(place_.sweep)) {
      if (result.values.contains(metric)) continue;
      warn(name + " has no '" + metric + "' to be compared by");
    }
  }

  const SweepPlace& place_;
  const std::vector<Trial>& trials_;
  SweepProgress& progress_;
  SweepJournal& journal_;
  LaunchSignals signals_;
  std::list<TrialProcess> running_;
  bool stopping_ = false;
};

/// Of the best trials; a page of thousands would help nobody.
void report_sweep(const SweepPlace& place, const std::vector<Trial>& trials,
                  const SweepProgress& progress) {
  constexpr size_t kMost = 40;
  std::vector<std::string> folders;
  for (const size_t trial : progress.ranking()) {
    const std::string folder = place.folder + "/" + trials[trial].name;
    if (folders.size() < kMost && fs::exists(folder + "/metrics.jsonl")) folders.push_back(folder);
  }
  if (folders.empty()) return;
  try {
    say("report " + write_report(folders, place.folder + "/report.html"));
  } catch (const Error& error) {
    warn(std::string("there is no report of the sweep: ") + error.what());
  }
}

/// So that trials side by side do not wait for each other's threads.
int64_t threads_for(const SweepOptions& sweep) {
  return sweep.parallel == 1 ? 0 : std::max<int64_t>(1, usable_cores() / sweep.parallel);
}

bool sets_threads(const SweepPlace& place, const Trial& trial) {
  const LoadedRecipe loaded = load_recipe(trial_recipe(place, trial), place.folder);
  const AcceleratorSection& section = loaded.options.accelerator;
  return section.num_cpu_threads_per_process || wants_ranks(section);
}

ExitCode carry_out_sweep(const SweepPlace& place, const std::vector<Trial>& trials, bool retry) {
  fs::create_directories(place.folder + "/logs");
  const RunLock lock(place.folder);
  SweepJournal journal(place.folder + "/sweep.jsonl", place.sweep, trials);
  SweepProgress progress(place.sweep, trials.size());
  for (const StageResult& result : journal.results()) {
    if (!retry || !result.failed) progress.add(result);
  }
  const bool finished = SweepRun(place, trials, progress, journal).run();
  for (const std::string& line : ranking_lines(place.sweep, trials, progress)) say(line);
  report_sweep(place, trials, progress);
  if (!finished) {
    say("stopped: the same command goes on");
    return ExitCode::kInterrupted;
  }
  if (progress.entrants(progress.stages() - 1).empty()) {
    throw Error(ExitCode::kOther, "no trial went on to the last stage",
                "let each trial be evaluated in the stages before: lower 'eval.every'");
  }
  const bool good = !progress.any_failed() && !progress.any_missed();
  return good ? ExitCode::kDone : ExitCode::kOther;
}

}  // namespace

ExitCode sweep_verb(const SweepArguments& arguments) {
  const SweepOptions sweep = read_sweep(arguments.path, text_of(arguments.path));
  const std::vector<Trial> trials = trials_of(sweep);
  SweepPlace place{sweep, "runs/" + sweep.name, arguments.config};
  TrialChecks checks(place);
  for (const Trial& trial : trials) checks.add(trial);
  checks.check();
  if (!fs::exists(place.folder + "/sweep.jsonl")) check_metrics(place, trials);
  if (arguments.dry_run) {
    for (const std::string& line : trial_lines(trials)) say(line);
    return ExitCode::kDone;
  }
  if (!sets_threads(place, trials.front())) place.cpu_threads = threads_for(sweep);
  return carry_out_sweep(place, trials, arguments.retry);
}

}  // namespace accel
