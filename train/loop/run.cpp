#include "train/loop/run.h"
#include "train/loop/module_layout.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <new>

#include "checkpoint/file_names.h"
#include "checkpoint/run_lock.h"
#include "checkpoint/store.h"
#include "core/base/console.h"
#include "core/base/drafts.h"
#include "core/base/environment.h"
#include "core/base/folders.h"
#include "core/base/log.h"
#include "core/base/rank_phases.h"
#include "core/base/text.h"
#include "core/recipe/flat_values.h"
#include "core/recipe/parse.h"
#include "parallel/rendezvous/launcher_channel.h"
#include "parallel/rendezvous/rank_info.h"
#include "track/git_state.h"
#include "track/tracker_runs.h"
#include "track/train_job_status.h"
#include "train/control/run_control.h"
#include "train/job/data_warnings.h"
#include "train/job/torch_setup.h"
#include "train/loop/changed_state.h"
#include "train/loop/deadline.h"
#include "train/loop/precompute_reference.h"
#include "train/loop/report.h"
#include "train/loop/resumable.h"
#include "train/loop/run_folder.h"
#include "train/loop/run_metadata.h"
#include "train/loop/shared_checkpoint.h"
#include "train/loop/signals.h"
#include "train/loop/train_loop.h"
#include "train/recipe/saved_recipe.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

bool allows(const RunRequest& request, const std::string& key) {
  return std::find(request.allowed.begin(), request.allowed.end(), key) != request.allowed.end();
}

/// The recipe's `checkpoint.resume` path. `resume` prefers the run's own newest checkpoint, unless
/// the path was given on the command line.
std::optional<std::string> given_checkpoint(const Job& job, const CheckpointStore& store,
                                            const RunRequest& request) {
  const ResumeFrom& resume = job.recipe.checkpoint.resume;
  if (resume.kind != ResumeFrom::Kind::kPath) return std::nullopt;
  if (request.must_resume && !allows(request, "checkpoint.resume") && !store.list().empty()) {
    return std::nullopt;
  }
  return resume.path.text;
}

/// Later checkpoints of another history would be mistaken for newer ones of this run.
void check_later(const CheckpointStore& store, const std::string& from, const TrainState& state) {
  for (const CheckpointEntry& entry : store.list()) {
    if (entry.step <= state.progress.step) continue;
    if (fs::absolute(entry.path).lexically_normal() == fs::absolute(from).lexically_normal()) {
      continue;
    }
    throw CheckpointError(text("'{}' is at step {}, but the run folder has the later '{}'", from,
                               state.progress.step, entry.path),
                          "move the later checkpoints away, or give the run another 'name'");
  }
}

NamedTrackers build_trackers(const Job& job, const std::string& dir, const TrainState* resumed) {
  const std::vector<std::string> names = tracker_names(job.recipe.trackers);
  TrackerRuns runs(dir);
  std::vector<TrackerContext> contexts;
  for (const std::string& name : names) {
    TrackerContext& context = contexts.emplace_back();
    context.run_dir = dir;
    context.run_name = job.recipe.name;
    context.git = git_state(".");
    TrackerIdMap of_checkpoint;
    if (resumed) {
      context.first_step = resumed->progress.step;
      of_checkpoint = tracker_ids(*resumed, name);
    }
    context.ids = runs.ids_for(name, std::move(of_checkpoint));
  }
  runs.save();
  NamedTrackers trackers;
  for (size_t i = 0; i < names.size(); ++i) {
    trackers.emplace_back(names[i], build(job.recipe.trackers[i], contexts[i]));
    runs.built(names[i], trackers.back().second->ids());
  }
  runs.save();
  return trackers;
}

/// The ranks that accel-run's launcher has started on this machine; 0 without it.
int64_t launched_ranks() {
  if (!find_launcher_channel(&environment_variable)) return 0;
  const std::optional<RankInfo> rank = find_rank(&environment_variable);
  return rank ? rank->local_world : 0;
}

void warn_of_other_holder(const RunLock& lock, const std::string& run_dir) {
  if (lock.doubtful_holder().empty()) return;
  warn(
      text("run folder '{}' was locked by {}, which did not release the lock and is assumed dead: "
           "if it still runs, stop it",
           run_dir, lock.doubtful_holder()));
}

/// An open run: its folder, lock, checkpoint store and state.
struct OpenRun {
  std::string dir;              ///< absolute
  std::optional<RunLock> lock;  ///< destroyed last
  DiskFiles files;
  CheckpointStore store{files, dir};
  RunState state;
  std::string resumed_from;
  double read_seconds = 0;            ///< of opening and reading the checkpoint
  std::optional<TrainState> saved;    ///< only while the run is opened
  bool recipe_changed = false;        ///< the state is then saved even without a step
  std::vector<RecipeChange> changes;  ///< of the recipe, since the checkpoint
  std::string lr_change;              ///< their effect on the learning rate, in words
  std::optional<RecordMark> record;   ///< of the checkpoint, if it is one of this run
  NamedTrackers trackers;

  explicit OpenRun(std::string folder) : dir(std::move(folder)) {}
};

/// The newest checkpoint of the run folder; nullopt starts at step 0.
std::optional<LoadedCheckpoint> own_checkpoint(const Job& job, OpenRun& run,
                                               const RunRequest& request) {
  const CheckpointStore& store = run.store;
  const ResumeFrom& resume = job.recipe.checkpoint.resume;
  const std::vector<CheckpointEntry> present = store.list();
  const bool never = resume.kind == ResumeFrom::Kind::kNever;
  if (never && request.must_resume && allows(request, "checkpoint.resume")) {
    throw Error(ExitCode::kRecipe, "'resume' and 'checkpoint.resume=never' contradict each other",
                "remove the option, or start a new run under another 'name'");
  }
  if (never && !request.must_resume) {
    if (present.empty()) return std::nullopt;
    throw Error(ExitCode::kRecipe,
                text("'checkpoint.resume' is never, but '{}' has checkpoints", request.run_dir),
                "add --new for a new run, or --fresh to start over and keep the old run aside");
  }
  std::optional<LoadedCheckpoint> found = store.load_newest(&warn, load_options(job, run.files));
  if (!found && (request.must_resume || !present.empty())) {
    throw CheckpointError(text("'{}' has no usable checkpoint", request.run_dir),
                          present.empty()
                              ? "start it with 'accel-run RECIPE'"
                              : "start over with 'accel-run RECIPE --fresh': it keeps the folder");
  }
  return found;
}

/// Loads the checkpoint at `path`, of accel-run or another program.
LoadedCheckpoint read_given(const Job& job, const RunRequest& request, const std::string& path,
                            OpenRun& run) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    throw CheckpointError(
        text("'checkpoint.resume' is '{}', which is not an existing folder", path),
        "give a checkpoint folder, or auto for the newest of the run");
  }
  if (fs::is_directory(fs::path(path) / "checkpoints", error)) {
    if (!fs::exists(fs::path(path) / "recipe.yaml", error)) {
      throw CheckpointError(
          text("'checkpoint.resume' is '{}', which is a project folder of Accelerate", path),
          "give one of its checkpoints");
    }
    throw CheckpointError(text("'checkpoint.resume' is '{}', which is a run folder", path),
                          text("give one of its checkpoints, or use 'accel-run resume {}'", path));
  }
  LoadOptions options = load_options(job, run.files);
  options.without = {request.allowed.begin(), request.allowed.end()};
  for (const Parameter& item : job.optimizer->parameters()) {
    options.parameters.push_back(item.name);
  }
  for (const OptimizerState::Group& group : job.optimizer->state().groups) {
    options.group_sizes.push_back(group.parameters.size());
  }
  options.layout = module_layout(job);
  for (const Parameter& item : job.parameters) options.with_frozen.push_back(item.name);
  std::vector<std::string> names;
  for (const auto* list : {&job.parameters, &job.buffers}) {
    for (const Parameter& item : *list) names.push_back(item.name);
  }
  options.models = further_models(names);
  return {path, run.store.load(path, options)};
}

/// Checks a checkpoint against the job and restores it. Writes nothing.
void restore_from(Job& job, const RunRequest& request, LoadedCheckpoint from, OpenRun& run) {
  run.saved = std::move(from.state);
  if (run.saved->accelerate) {
    if (!request.import_accelerate) throw std::logic_error("no checkpoint importer");
    for (const std::string& line :
         request.import_accelerate(job, from.path, request.allowed, *run.saved)) {
      say(line);
    }
    run.recipe_changed = true;
  } else {
    if (job.recipe.checkpoint.resume_step) {
      warn(text("'checkpoint.resume_step' is not used: '{}' records its step", from.path));
    }
    replay_commands(job, run.dir, run.saved->recipe, request.allowed);
    run.changes = check_resumable(job, *run.saved, request.allowed, request.again);
    run.recipe_changed = !run.changes.empty();
    for (const std::string& line : adapt_to_changes(job, run.changes, *run.saved)) say(line);
  }
  run.state = restore(job, *run.saved);
  run.lr_change = lr_change_text(job, *run.saved, run.state.updates, run.changes);
  run.resumed_from = fs::proximate(from.path).string();
  const fs::path folder = fs::absolute(from.path).lexically_normal().parent_path();
  if (folder == fs::path(run.dir) / "checkpoints") run.record = record_mark(*run.saved);
}

std::string ranks_text(int64_t first, int64_t last) {
  return first == last ? text("rank {}", first) : text("ranks {} to {}", first, last);
}

/// With another number of ranks than the checkpoint's, random states are unused or missing.
void log_rank_change(const Job& job, const OpenRun& run) {
  if (!run.saved || run.saved->accelerate) return;
  const auto known = static_cast<int64_t>(run.saved->other_rngs.size()) + 1;
  const int64_t world = job.batches.world;
  if (world == known) return;
  const std::string what =
      world > known ? ranks_text(known, world - 1) + " start new random streams"
                    : "the random states of " + ranks_text(world, known - 1) + " are not used";
  say("the checkpoint was made by " + std::to_string(known) + (known == 1 ? " rank" : " ranks") +
      ": the sample order stays the same; " + what);
}

std::string start_text(const Job& job, const OpenRun& opened) {
  if (opened.resumed_from.empty()) return "at step 0";
  const RunState& run = opened.state;
  return "from " + opened.resumed_from + ": step " + std::to_string(run.progress.step) +
         ", epoch " + std::to_string(run.progress.epoch) + ", sample " +
         std::to_string(run.progress.samples) + ", lr " +
         rounded(job.schedule->lr(job.optimizer->base_lrs().front(), run.updates)) + ", read in " +
         std::to_string(std::llround(opened.read_seconds * 1e3)) + " ms";
}

std::string headline(const TrainLoop& loop, bool finished) {
  const std::string why = loop.stop_reason().empty() ? "" : " (" + loop.stop_reason() + ")";
  if (finished && loop.steps_done() == 0) {
    return "nothing to do: the run has already finished" + why;
  }
  if (finished) return "done" + why;
  const int signal = SignalWatch::received();
  const std::string how = signal ? "interrupted by signal " + std::to_string(signal) : "stopped";
  // No checkpoint: before the first step, or after a failed save.
  return how + (loop.has_saved() ? " and saved" : " without a checkpoint") + why;
}

/// Writes the report and returns its path; a failure is a warning, and the path is empty then.
std::string write_report(const RunRequest& request) try {
  if (!request.write_report) return "";
  request.write_report(request.run_dir);
  return request.run_dir + "/report.html";
} catch (const std::bad_alloc&) {
  warn("cannot write the report: out of memory");
  return "";
} catch (const std::exception& error) {
  warn(text("cannot write the report: {}", error.what()));
  return "";
}

ExitCode finish(const Job& job, const TrainLoop& loop, const RunRequest& request, LoopEnd ended) {
  RunEnd end;
  if (job.is_main) end.report = write_report(request);
  end.run_dir = request.run_dir;
  end.finished = ended == LoopEnd::kFinished;
  if (!loop.last_checkpoint().empty()) {
    end.checkpoint = fs::proximate(loop.last_checkpoint()).string();
  }
  end.headline = headline(loop, end.finished);
  const std::vector<std::string> lines = last_screen(job, loop.state(), loop.watch(), end);
  for (size_t i = 0; i < lines.size(); ++i) (i == 0 ? say_result_title : say_result)(lines[i]);
  // Launchers restart an interrupted run, but not one that its user has stopped.
  const bool wanted = ended == LoopEnd::kStopped && loop.has_saved();
  if (!end.finished) return wanted ? ExitCode::kDone : ExitCode::kInterrupted;
  // Another rank that ended with 1 first would make the launcher kill rank 0 as it finishes.
  if (!job.is_main) return ExitCode::kDone;
  job.watch->phase(kExpectationsPhase);
  const ExpectReport expect = check_expectations(job, loop.state());
  for (const std::string& line : expect.lines) say_result(line);
  return expect.met ? ExitCode::kDone : ExitCode::kOther;
}

/// Whether the run folder is renamed before the run.
bool starts_over(const RunRequest& request) {
  return !request.old_dir.empty() && fs::exists(request.run_dir) && !fs::exists(request.old_dir);
}

/// Creates and locks the run folder, and restores the checkpoint to start from.
void open_run(Job& job, const RunRequest& request, OpenRun& run) {
  const std::optional<std::string> given = given_checkpoint(job, run.store, request);
  // Refused before anything is written.
  if (given) restore_from(job, request, read_given(job, request, *given, run), run);
  if (starts_over(request)) {
    set_aside(run.files, run.dir, fs::absolute(request.old_dir).lexically_normal().string());
    say(text("kept the old run: {}", request.old_dir));
  }
  check_run_files(run.dir);
  make_run_folder(run.files, run.dir);
  run.lock.emplace(run.dir, launched_ranks());
  warn_of_other_holder(*run.lock, request.run_dir);
  try_run_folder(run.files, run.dir);
  remove_drafts(run.dir);
  run.store.keep_to_run_folder();
  run.store.recover();
  if (given) {
    check_later(run.store, *given, *run.saved);
  } else if (auto own = own_checkpoint(job, run, request)) {
    restore_from(job, request, std::move(*own), run);
  }
  run.trackers = build_trackers(job, run.dir, run.saved ? &*run.saved : nullptr);
}

/// The other ranks restore rank 0's checkpoint, or throw its error.
void follow(Job& job, const RunRequest& request, OpenRun& run) {
  const std::string path = receive_checkpoint(job, run.files);
  if (!path.empty()) restore_from(job, request, read_given(job, request, path, run), run);
}

/// Opens the run on rank 0 and broadcasts the checkpoint's path, or the error.
void lead(Job& job, const RunRequest& request, OpenRun& run) {
  try {
    open_run(job, request, run);
    const std::string saved = run.dir + "/recipe.yaml";
    const auto origin = [&](const Node& node) { return origin_through(node, saved); };
    std::string recipe = to_yaml(job.resolved, origin);
    if (recipe.size() > kMaxRecipeBytes) recipe = to_yaml(job.resolved);
    write_file_atomically(saved, recipe);
    make_folder_within(run.dir, run.dir + "/logs");
    drop_from_journal(run.dir, request.allowed);
  } catch (const std::exception& error) {
    send_refusal(job, error);
    throw;
  }
  send_checkpoint(job, run.resumed_from);
}

/// Opens the run on all ranks with the same state. Only rank 0 writes.
void start_run(Job& job, const RunRequest& request, OpenRun& run) {
  const auto start = std::chrono::steady_clock::now();
  if (job.is_main) {
    lead(job, request, run);
  } else {
    follow(job, request, run);
  }
  if (job.weights_uninitialized && !run.saved) {
    throw CheckpointError(
        text("the checkpoints of '{}' were deleted after this process started", request.run_dir),
        "start it again if that was intended");
  }
  if (run.saved) {
    for (const OptimizerBinding& binding : job.optimizers) binding.strategy->refresh_weights();
  }
  log_rank_change(job, run);
  run.saved.reset();
  run.read_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::error_code ignored;  // a machine without the folder writes no logs
  if (fs::is_directory(run.dir + "/logs", ignored)) {
    log_to_file(run.dir + "/logs/rank-" + std::to_string(job.rank) + ".log");
  }
  precompute_reference(job, run.state, run.dir);
}

/// Whether the job may be started again unchanged after the error.
bool is_of_machine(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  const ExitCode code = ours ? ours->code() : ExitCode::kOther;
  return code == ExitCode::kRank || code == ExitCode::kTimeout || code == ExitCode::kIo ||
         code == ExitCode::kMemory;
}

/// Prints the first screen and the warnings, and records the start.
void announce(const Job& job, const RunRequest& request, const OpenRun& run, RunRecord& record) {
  const std::string start = start_text(job, run);
  ConfigValues notes;
  if (!run.lr_change.empty()) notes.emplace_back("schedule", run.lr_change);
  if (!request.export_note.empty()) notes.emplace_back("export", request.export_note);
  const std::vector<std::string> screen = first_screen(job, request.run_dir, start, notes);
  for (size_t i = 0; i < screen.size(); ++i) (i == 0 ? say_title : say)(screen[i]);
  if (const std::string few = few_samples_warning(job); !few.empty()) warn(few);
  if (!job.is_main) return;
  for (const std::string& line : data_warnings(job)) warn(line);
  const bool resumed = !run.resumed_from.empty();
  record_run_start(job, {run.state.progress.step, resumed, start, run.changes, request.forecast},
                   record);
}

}  // namespace

bool has_checkpoint(const RecipeOptions& recipe, const RunRequest& request) {
  if (recipe.checkpoint.resume.kind == ResumeFrom::Kind::kPath) return false;
  if (starts_over(request)) return false;
  DiskFiles files;
  return !CheckpointStore(files, request.run_dir).list().empty();
}

ExitCode run_job(Job& job, const RunRequest& request) {
  const std::string dir = fs::absolute(request.run_dir).lexically_normal().string();
  const Deadline checked(job.recipe.checkpoint.deadline,
                         false);                               // throws before anything is written
  auto status = make_train_job_status(&environment_variable);  // as well
  OpenRun run(dir);
  start_run(job, request, run);
  if (status && job.is_main) run.trackers.emplace_back(kTrainJobStatusName, std::move(status));
  RunRecord record;
  std::optional<RunGuard> guard;
  if (job.is_main) {
    const std::string path = dir + "/metrics.jsonl";
    record = {path, run.state.progress.step, run.record, run.state.eval_pending};
    guard.emplace(*run.lock, path);
    if (!record.problem().empty()) warn(record.problem());
  }
  announce(job, request, run, record);
  const PlanCheck plan(request.forecast, record);
  TrackerThread trackers(std::move(run.trackers), &warn);
  trackers.config(flat_values(job.resolved));

  const auto close = [&](RunStatus status) {
    trackers.finish(status);
    if (job.is_main && status == RunStatus::kFinished) TrackerRuns::ended(dir);
    close_log_file();
  };
  try {
    TrainLoop loop(
        {job, run.store, record, trackers, dir, job.is_main, &plan, guard ? &*guard : nullptr},
        run.state, run.recipe_changed ? "" : run.resumed_from);
    const LoopEnd ended = loop.run(request.stop_after);
    // The comparison after the first step has been printed already.
    const int64_t steps = loop.steps_done() == 1 ? 0 : loop.steps_done();
    const auto taken = plan.look(job, loop.state().progress.step, steps, loop.watch());
    record.event(loop.state().progress.step, ended == LoopEnd::kFinished ? "end" : "interrupted",
                 loop.stop_reason());
    record.flush();
    if (taken) say("planned and actual: " + *taken);
    const ExitCode code = finish(job, loop, request, ended);
    close(ended == LoopEnd::kFinished ? RunStatus::kFinished : RunStatus::kInterrupted);
    return code;
  } catch (const std::exception& error) {
    if (const auto lost = guard ? guard->lost() : std::nullopt) {
      trackers.abandon();
      record.abandon();
      close_log_file();
      throw LostFolderError(*lost);
    }
    try {
      record.event(run.state.progress.step, "failed", error.what());
      record.flush();
      if (job.is_main) write_report(request);
      close(RunStatus::kFailed);
      if (job.is_main && !is_of_machine(error)) TrackerRuns::ended(dir);
    } catch (const std::exception& also) {
      warn(also.what());  // the first error is rethrown
    }
    throw;
  }
}

}  // namespace accel
