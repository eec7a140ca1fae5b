#include "runner/cli/trial.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <set>
#include <string_view>

#include <nlohmann/json.hpp>

#include "compat/accelerate/import_checkpoint.h"
#include "core/base/activity.h"
#include "core/base/library_pages.h"
#include "core/base/owned_fd.h"
#include "core/base/text.h"
#include "infer/model_texts.h"
#include "models/hf/hf_family.h"
#include "models/lora/lora_options.h"
#include "runner/cli/display.h"
#include "runner/cli/world.h"
#include "runner/launch/memory_limits.h"
#include "runner/plan/forecast.h"
#include "runner/plan/memory_check.h"
#include "runner/report/report.h"
#include "runner/report/run_summary.h"
#include "train/job/build_job.h"
#include "train/job/job.h"
#include "train/loop/signals.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

/// The command line of a rank of the trial.
std::vector<std::string> command_of(const RecipeArguments& arguments, const fs::path& dir,
                                    std::optional<int64_t> stop_after) {
  std::vector<std::string> argv = {"accel-run", "run", "--run-dir", dir.string()};
  if (stop_after) argv.insert(argv.end(), {"--stop-after", std::to_string(*stop_after)});
  if (!arguments.config.empty()) argv.insert(argv.end(), {"--config", arguments.config});
  if (arguments.smoke) argv.emplace_back("--smoke-section");
  if (arguments.quiet) argv.emplace_back("--muted");
  argv.insert(argv.end(), display_words().begin(), display_words().end());
  argv.push_back(arguments.path);
  argv.insert(argv.end(), arguments.overrides.begin(), arguments.overrides.end());
  return argv;
}

/// The last step of a run's record.
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

/// Throws when the trial failed.
TrialEnd run_ranks(const RecipeArguments& arguments, const AcceleratorSection& section,
                   const fs::path& dir, std::optional<int64_t> stop_after) {
  const ExitCode code =
      launch_ranks(section, {command_of(arguments, dir, stop_after), dir.string(), arguments.json});
  const bool good = code == ExitCode::kDone || (stop_after && code == ExitCode::kInterrupted);
  if (!good) throw Error(code, "a trial with several processes failed; its output is above");
  return {steps_in(dir / "metrics.jsonl"), code};
}

std::string dir_of(const SweepContext& context, const Trial& trial) {
  return context.folder + "/" + trial.name;
}

std::vector<std::string> command_of_trial(const SweepContext& context, const Trial& trial,
                                          std::optional<int64_t> until) {
  const RecipeArguments recipe = trial_recipe(context, trial);
  std::vector<std::string> argv = {"accel-run", "run", "--run-dir", recipe.run_dir};
  if (until) argv.insert(argv.end(), {"--stop-after", std::to_string(*until)});
  if (!recipe.config.empty()) argv.insert(argv.end(), {"--config", recipe.config});
  argv.push_back(recipe.path);
  argv.insert(argv.end(), recipe.overrides.begin(), recipe.overrides.end());
  return argv;
}

/// Metrics of every run; those of the evaluation are checked with the recipe.
const std::set<std::string> kAlwaysLogged = {"eval/loss",   "train/loss",
                                             "train/lr",    "train/grad_norm",
                                             "train/epoch", "train/samples_per_second"};

/// The metric names of a trial; none: it cannot be planned.
std::vector<std::string> names_of_trial(const SweepContext& context, const Trial& trial) {
  const ScratchFolder scratch;
  const std::string output = (scratch.path() / "names").string();
  const OwnedFd file = open_fd(output, O_WRONLY | O_CREAT, 0600);
  const RecipeArguments recipe = trial_recipe(context, trial);
  RankStart start;
  start.program = fs::read_symlink("/proc/self/exe").string();
  start.argv = {"accel-run", "plan", "--names"};
  if (!recipe.config.empty()) start.argv.insert(start.argv.end(), {"--config", recipe.config});
  start.argv.push_back(recipe.path);
  start.argv.insert(start.argv.end(), recipe.overrides.begin(), recipe.overrides.end());
  start.environment = own_environment();
  start.standard_error = file.get();
  start.own_output = false;
  RankProcess process(start);
  std::optional<RankEnd> end;
  constexpr int kMilliseconds = 10;
  while (!(end = process.reap())) ::poll(nullptr, 0, kMilliseconds);
  if (end->by_signal || end->number != 0) return {};
  std::vector<std::string> names;
  std::ifstream lines(output);
  for (std::string line; std::getline(lines, line);) {
    if (line.find('/') != line.npos && line.find(' ') == line.npos) names.push_back(line);
  }
  return names;
}

/// The first trial of each set of keys that may change the metrics.
std::vector<Trial> distinct_trials(const std::vector<Trial>& trials) {
  std::vector<Trial> kinds;
  std::set<std::string> seen;
  for (const Trial& trial : trials) {
    std::string kind;
    for (const TrialValue& value : trial.values) {
      const bool counts = value.key == "model.type" || value.key.starts_with("task") ||
                          value.key.starts_with("data.eval") ||
                          value.key.starts_with("data.split") || value.key.starts_with("eval.metr");
      if (counts) kind += override_text(value) + '\n';
    }
    if (seen.insert(kind).second) kinds.push_back(trial);
  }
  return kinds;
}

/// How transformers loads the exported model, if it lacks the model's code, or why it cannot be
/// exported; else "".
std::string export_note(const Job& job) try {
  const HfFamily::Table* family = HfFamily::of_component(job.recipe.model.type);
  if (!family) return "";
  const Node options = detail::without_type(job.recipe.model.resolved);
  if (lora_of(options)) return "";  // only the adapter is exported
  WeightShapes shapes;
  for (const auto* list : {&job.parameters, &job.buffers}) {
    for (const Parameter& item : *list) shapes[item.name] = item.shape();
  }
  nlohmann::json config = nlohmann::json::object();
  family->write_config(options, shapes, config);
  if (family->python_files(config).empty()) return "";
  return "with the model's code: transformers loads the folder with trust_remote_code=True";
} catch (const Error& error) {
  return text("not possible: {}; {}", error.what(), error.hint());
} catch (const std::exception&) {
  return "";  // reported by the export
}

}  // namespace

std::unique_ptr<Job> build_training_job(LoadedRecipe recipe, const World& world) {
  const auto check = [&](const Job& job) {
    check_memory(job, {available_memory(world.local_world), world.local_world});
  };
  return build_job(std::move(recipe.options), std::move(recipe.resolved), *recipe.registry, world,
                   {texts_of, check});
}

ExitCode run_training_job(Job& job, RunRequest request) {
  release_library_pages(LibraryPages::kReadOnly);  // of building the job
  if (job.is_main) request.export_note = export_note(job);
  if (job.recipe.log.plan && job.is_main) {
    const Activity shown("estimating time and memory");
    request.forecast = forecast(job, request.run_dir);
  }
  request.import_accelerate = import_accelerate_checkpoint;
  request.write_report = write_own_report;
  return run_job(job, request);
}

ScratchFolder::ScratchFolder() {
  std::error_code error;
  const fs::path parent = fs::temp_directory_path(error);
  std::string name = (parent / "accel-run-XXXXXX").string();
  if (error || !mkdtemp(name.data())) {
    throw IoError("cannot create a temporary folder", "set TMPDIR to a writable folder");
  }
  path_ = name;
}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  fs::remove_all(path_, ignored);
}

TrialEnd run_trial(const RecipeArguments& arguments, const fs::path& dir,
                   std::optional<int64_t> stop_after) {
  LoadedRecipe recipe = load_runnable(arguments, dir.string());
  const AcceleratorSection& section = recipe.options.accelerator;
  if (wants_ranks(section)) return run_ranks(arguments, section, dir, stop_after);
  const auto job = build_training_job(std::move(recipe));
  RunRequest request;
  request.run_dir = dir.string();
  request.stop_after = stop_after;
  const ExitCode code = run_training_job(*job, std::move(request));
  if (const int signal = SignalWatch::received()) {
    throw Error(ExitCode::kInterrupted, text("stopped by signal {}", signal));
  }
  return {job->length.total_steps, code};
}

std::vector<std::string> own_environment() {
  std::vector<std::string> all;
  for (char** at = environ; *at; ++at) all.emplace_back(*at);
  return all;
}

RecipeArguments trial_recipe(const SweepContext& context, const Trial& trial) {
  RecipeArguments recipe;
  recipe.path = context.sweep.recipe;
  recipe.config = context.config;
  recipe.run_dir = dir_of(context, trial);
  recipe.first_override = 1;
  for (const auto& [key, value] : context.sweep.overrides) {
    recipe.overrides.push_back(override_text({key, value}));
  }
  for (const TrialValue& value : trial.values) recipe.overrides.push_back(override_text(value));
  recipe.overrides.push_back("name=" + context.sweep.name + "-" + trial.name);
  if (!context.sweep.stages.empty()) {
    recipe.overrides.push_back("train.until=" + to_string(context.sweep.stages.back().until));
  }
  if (context.cpu_threads > 0) {
    recipe.overrides.push_back("accelerator.num_cpu_threads_per_process=" +
                               std::to_string(context.cpu_threads));
  }
  return recipe;
}

std::optional<int64_t> stage_end(const SweepOptions& sweep, size_t stage) {
  if (stage + 1 >= sweep.stages.size()) return std::nullopt;
  return static_cast<int64_t>(sweep.stages[stage].until.value);
}

TrialProcess::TrialProcess(const SweepContext& context, const Trial& trial, size_t number,
                           size_t stage)
    : dir_(dir_of(context, trial)),
      metrics_(metrics_of(context.sweep)),
      number_(number),
      stage_(stage),
      until_(stage_end(context.sweep, stage)) {
  const std::string output = context.folder + "/logs/" + trial.name + ".log";
  const OwnedFd file = open_fd(output, O_WRONLY | O_CREAT | O_APPEND);
  if (!file) throw IoError(text("cannot write '{}': {}", output, std::strerror(errno)));
  RankStart start;
  start.program = fs::read_symlink("/proc/self/exe").string();
  start.argv = command_of_trial(context, trial, until_);
  start.environment = own_environment();
  start.standard_error = file.get();
  start.own_output = false;
  process_.emplace(start);
}

bool TrialProcess::ended() {
  if (code_ >= 0) return true;
  const std::optional<RankEnd> end = process_->reap();
  if (!end) return false;
  constexpr int kOfSignals = 128;
  code_ = end->by_signal ? kOfSignals + end->number : end->number;
  return true;
}

std::optional<StageResult> TrialProcess::result() const {
  StageResult out{.trial = number_, .stage = stage_, .failed = true, .code = code_};
  const auto is = [&](ExitCode code) { return code_ == static_cast<int>(code); };
  if (is_in_use()) return std::nullopt;
  if (!fs::exists(dir_ + "/metrics.jsonl")) {
    return is(ExitCode::kInterrupted) ? std::nullopt : std::optional(out);
  }
  const RunSummary run = read_run(dir_);
  out.step = run.step;
  for (const std::string& name : metrics_) {
    const Curve* curve = run.curve(name);
    if (curve && std::isfinite(curve->last())) out.values[name] = curve->last();
  }
  if (is(ExitCode::kInterrupted)) {
    if (!until_ || run.step < *until_) return std::nullopt;
    out.failed = false;
  } else {
    // A missed expectation also exits with kOther, after a finished run.
    const bool expected = is(ExitCode::kOther) && run.standing() == RunStanding::kFinished;
    out.failed = !is(ExitCode::kDone) && !expected;
  }
  return out;
}

void check_metrics(const SweepContext& context, const std::vector<Trial>& trials) {
  std::vector<std::string> asked = metrics_of(context.sweep);
  std::erase_if(asked, [](const std::string& name) { return kAlwaysLogged.contains(name); });
  if (asked.empty()) return;
  Diagnostics problems;
  for (const Trial& trial : distinct_trials(trials)) {
    const std::vector<std::string> names = names_of_trial(context, trial);
    for (const std::string& name : asked) {
      if (names.empty() || std::find(names.begin(), names.end(), name) != names.end()) continue;
      const auto where = context.sweep.metric_positions.find(name);
      std::string hint = did_you_mean(name, names);
      if (hint.empty()) hint = "'accel-run plan --names RECIPE' lists the metrics";
      problems.error(where == context.sweep.metric_positions.end() ? Span() : where->second,
                     text("'{}' does not log a metric '{}'", trial.name, name), hint);
    }
    problems.check();
  }
}

}  // namespace accel
