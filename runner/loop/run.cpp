#include "runner/loop/run.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "core/flat_values.h"
#include "core/log.h"
#include "core/node.h"
#include "runner/checkpoint/run_lock.h"
#include "runner/checkpoint/several_optimizers.h"
#include "runner/checkpoint/store.h"
#include "runner/dist/operations.h"
#include "runner/job/torch_setup.h"
#include "runner/loop/account.h"
#include "runner/loop/carry_over.h"
#include "runner/loop/deadline.h"
#include "runner/loop/report.h"
#include "runner/loop/resumable.h"
#include "runner/loop/run_folder.h"
#include "runner/loop/signals.h"
#include "runner/loop/steering.h"
#include "runner/loop/train_loop.h"
#include "runner/track/git_state.h"

namespace accel {
namespace {

namespace fs = std::filesystem;

bool allows(const RunRequest& request, const std::string& key) {
  return std::find(request.allowed.begin(), request.allowed.end(), key) != request.allowed.end();
}

/// The recipe's path, where it counts: a run that is to be resumed goes on from its own newest
/// checkpoint, unless the path was given with the command.
std::optional<std::string> given_checkpoint(const Job& job, const CheckpointStore& store,
                                            const RunRequest& request) {
  const ResumeFrom& resume = job.recipe.checkpoint.resume;
  if (resume.kind != ResumeFrom::Kind::kPath) return std::nullopt;
  if (request.must_resume && !allows(request, "checkpoint.resume") && !store.list().empty()) {
    return std::nullopt;
  }
  return resume.path.text;
}

/// The newest checkpoint of the run folder; nullopt starts at step 0.
std::optional<LoadedCheckpoint> own_checkpoint(const Job& job, const CheckpointStore& store,
                                               const RunRequest& request) {
  const ResumeFrom& resume = job.recipe.checkpoint.resume;
  const std::vector<CheckpointEntry> present = store.list();
  const bool never = resume.kind == ResumeFrom::Kind::kNever;
  if (never && request.must_resume && allows(request, "checkpoint.resume")) {
    throw Error(ExitCode::kRecipe, "'resume' and 'checkpoint.resume=never' contradict each other",
                "leave the option out, or start anew under another 'name'");
  }
  if (never && !request.must_resume) {
    if (present.empty()) return std::nullopt;
    throw Error(ExitCode::kRecipe,
                "'checkpoint.resume' is never, but '" + request.run_dir + "' has checkpoints",
                "give the run another 'name', or move the folder away");
  }
  std::optional<LoadedCheckpoint> found = store.load_newest(&warn);
  if (!found && (request.must_resume || !present.empty())) {
    throw CheckpointError("'" + request.run_dir + "' has no checkpoint that can be used",
                          present.empty() ? "start it with 'accel-run RECIPE'"
                                          : "move the folder away to start anew");
  }
  return found;
}

/// Later checkpoints of another past would be taken for newer ones of this run.
void check_later(const CheckpointStore& store, const std::string& from, const TrainState& state) {
  for (const CheckpointEntry& entry : store.list()) {
    if (entry.step <= state.progress.step) continue;
    if (fs::absolute(entry.path).lexically_normal() == fs::absolute(from).lexically_normal()) {
      continue;
    }
    throw CheckpointError("'" + from + "' is at step " + std::to_string(state.progress.step) +
                              ", but the run folder has the later '" + entry.path + "'",
                          "move the later checkpoints away, or give the run another 'name'");
  }
}

NamedTrackers build_trackers(const Job& job, const std::string& dir, const TrainState* resumed) {
  const std::vector<std::string> names = tracker_names(job.recipe.trackers);
  NamedTrackers trackers;
  for (size_t i = 0; i < names.size(); ++i) {
    TrackerContext context;
    context.run_dir = dir;
    context.run_name = job.recipe.name;
    context.git = git_state(".");
    if (resumed) {
      context.first_step = resumed->progress.step;
      context.ids = tracker_ids(*resumed, names[i]);
    }
    trackers.emplace_back(names[i], build(job.recipe.trackers[i], context));
  }
  return trackers;
}

void warn_of_other_holder(const RunLock& lock, const std::string& run_dir) {
  if (lock.doubtful_holder().empty()) return;
  warn("run folder '" + run_dir + "' was last held by " + lock.doubtful_holder() +
       ", which never let go of it and is taken for dead: if it still runs, stop it");
}

/// The run's parts that write to the disk, open.
struct OpenRun {
  std::string dir;              ///< absolute
  std::optional<RunLock> lock;  ///< goes after all that it guards
  DiskFiles files;
  CheckpointStore store{files, dir};
  RunState state;
  std::string resumed_from;
  double read_seconds = 0;          ///< until the checkpoint was in the job
  std::optional<TrainState> saved;  ///< until all that needs it is made
  bool recipe_changed = false;  ///< since the checkpoint, so that even an unchanged state is saved
  std::vector<RecipeChange> changes;  ///< of the recipe, since the checkpoint
  NamedTrackers trackers;

  explicit OpenRun(std::string folder) : dir(std::move(folder)) {}
};

/// The checkpoint at `path`, whoever wrote it.
LoadedCheckpoint read_given(const Job& job, const RunRequest& request, const std::string& path,
                            const CheckpointStore& store) {
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    throw CheckpointError(
        "'checkpoint.resume' names '" + path + "', which is no folder that is there",
        "give a checkpoint's folder, or auto for the run's newest");
  }
  if (fs::is_directory(fs::path(path) / "checkpoints", error)) {
    throw CheckpointError(
        "'checkpoint.resume' names '" + path + "', which is a run's folder",
        "give one of its checkpoints, or go on with 'accel-run resume " + path + "'");
  }
  LoadOptions options;
  options.without = {request.allowed.begin(), request.allowed.end()};
  for (const NamedTensor& item : job.optimizer->parameters()) {
    options.parameters.push_back(item.name);
  }
  for (const NamedTensor& item : job.parameters) options.with_frozen.push_back(item.name);
  std::vector<std::string> names;
  for (const auto* list : {&job.parameters, &job.buffers}) {
    for (const NamedTensor& item : *list) names.push_back(item.name);
  }
  options.models = further_models(names);
  return {path, store.load(path, options)};
}

/// Checks a checkpoint against the job and puts it in. Writes nothing.
void take(Job& job, const RunRequest& request, LoadedCheckpoint from, OpenRun& run) {
  run.saved = std::move(from.state);
  if (run.saved->accelerate) {
    for (const std::string& line : carry_over(job, from.path, request.allowed, *run.saved)) {
      say(line);
    }
    run.recipe_changed = true;
  } else {
    if (job.recipe.checkpoint.resume_step) {
      warn("'checkpoint.resume_step' is not used: '" + from.path + "' knows its step");
    }
    steer_back(job, run.dir, run.saved->recipe, request.allowed);
    run.changes = check_resumable(job, *run.saved, request.allowed);
    run.recipe_changed = !run.changes.empty();
  }
  run.state = restore(job, *run.saved);
  run.resumed_from = fs::proximate(from.path).string();
}

std::string ranks_text(int64_t first, int64_t last) {
  return first == last ? "rank " + std::to_string(first)
                       : "ranks " + std::to_string(first) + " to " + std::to_string(last);
}

/// Another number of ranks than the checkpoint's leaves random states out, or lacks some.
void tell_other_ranks(const Job& job, const OpenRun& run) {
  if (!run.saved || run.saved->accelerate) return;
  const auto known = static_cast<int64_t>(run.saved->other_rngs.size()) + 1;
  const int64_t world = job.group->world();
  if (world == known) return;
  const std::string what =
      world > known ? ranks_text(known, world - 1) + " draw new random numbers"
                    : "the random states of " + ranks_text(world, known - 1) + " are not used";
  say("the checkpoint was made by " + std::to_string(known) + (known == 1 ? " rank" : " ranks") +
      ": the samples go on in the same order; " + what);
}

std::string start_text(const Job& job, const OpenRun& opened) {
  if (opened.resumed_from.empty()) return "at step 0";
  const RunState& run = opened.state;
  return "from " + opened.resumed_from + ": step " + std::to_string(run.progress.step) +
         ", epoch " + std::to_string(run.progress.epoch) + ", sample " +
         std::to_string(run.progress.samples) + ", lr " +
         show_number(job.schedule->lr(job.optimizer->base_lrs().front(), run.updates)) +
         ", read in " + std::to_string(std::llround(opened.read_seconds * 1e3)) + " ms";
}

std::string headline(const TrainLoop& loop, bool finished) {
  if (finished && loop.steps_done() == 0) return "nothing left to do: the run has ended";
  if (finished) return loop.stop_reason().empty() ? "done" : "done, " + loop.stop_reason() + ",";
  const int signal = SignalWatch::received();
  const std::string how = signal ? "interrupted by signal " + std::to_string(signal) : "stopped";
  const std::string why = loop.stop_reason().empty() ? "" : ", as " + loop.stop_reason() + ",";
  // Before the first step there is nothing to save, and a save may have failed.
  return how + (loop.has_saved() ? " and saved" : " without a checkpoint") + why;
}

ExitCode finish(const Job& job, const TrainLoop& loop, const RunRequest& request, LoopEnd ended) {
  RunEnd end;
  if (job.group->is_main()) end.report = report_on(request.run_dir);
  end.run_dir = request.run_dir;
  end.finished = ended == LoopEnd::kFinished;
  if (!loop.last_checkpoint().empty()) {
    end.checkpoint = fs::proximate(loop.last_checkpoint()).string();
  }
  end.headline = headline(loop, end.finished);
  for (const std::string& line : last_screen(job, loop.state(), loop.watch(), end)) say(line);
  // Whoever starts the interrupted again would start what its user has stopped.
  const bool wanted = ended == LoopEnd::kStopped && loop.has_saved();
  if (!end.finished) return wanted ? ExitCode::kDone : ExitCode::kInterrupted;
  const ExpectReport expect = check_expectations(job, loop.state());
  for (const std::string& line : expect.lines) say(line);
  return expect.met ? ExitCode::kDone : ExitCode::kOther;
}

/// Makes the folder this process's own, and starts from the checkpoint there is.
void open_run(Job& job, const RunRequest& request, OpenRun& run) {
  const std::optional<std::string> given = given_checkpoint(job, run.store, request);
  // Refused before anything is written.
  if (given) take(job, request, read_given(job, request, *given, run.store), run);
  make_run_folder(run.files, run.dir);
  run.lock.emplace(run.dir);
  warn_of_other_holder(*run.lock, request.run_dir);
  try_run_folder(run.files, run.dir);
  run.store.recover();
  if (given) {
    check_later(run.store, *given, *run.saved);
  } else if (auto own = own_checkpoint(job, run.store, request)) {
    take(job, request, std::move(*own), run);
  }
  run.trackers = build_trackers(job, run.dir, run.saved ? &*run.saved : nullptr);
}

/// What rank 0 tells the others in place of a checkpoint's path when it refuses to start: no path
/// begins with a NUL.
std::string refusal_text(const std::exception& error) {
  const auto* ours = dynamic_cast<const Error*>(&error);
  const ExitCode code = ours ? ours->code() : ExitCode::kOther;
  const std::string nul(1, '\0');
  return nul + std::to_string(static_cast<int>(code)) + nul + error.what() + nul +
         (ours ? ours->hint() : "");
}

/// Throws what a refusal_text() tells.
void check_refused(const std::string& text) {
  if (!text.starts_with('\0')) return;
  const size_t message = text.find('\0', 1) + 1, hint = text.find('\0', message) + 1;
  throw Error(static_cast<ExitCode>(std::stoi(text.substr(1))),
              text.substr(message, hint - 1 - message), text.substr(hint));
}

/// The other ranks start from what rank 0 has chosen, or refuse as it does.
void follow(Job& job, const RunRequest& request, OpenRun& run) {
  const std::string path = broadcast_text(*job.group, "");
  check_refused(path);
  if (path.empty()) return;
  std::error_code error;
  if (!fs::is_directory(path, error)) {
    throw CheckpointError("rank " + std::to_string(job.group->rank()) + " does not see '" + path +
                              "', from which rank 0 goes on",
                          "let all machines share the run's folder");
  }
  take(job, request, read_given(job, request, path, run.store), run);
}

/// Rank 0's part of the start. The others learn why when there is to be none.
void lead(Job& job, const RunRequest& request, OpenRun& run) {
  try {
    open_run(job, request, run);
    write_whole(run.dir + "/recipe.yaml", to_yaml(job.resolved, &origin_of));
    fs::create_directories(run.dir + "/logs");
    drop_from_journal(run.dir, request.allowed);
  } catch (const std::exception& error) {
    broadcast_text(*job.group, refusal_text(error));
    throw;
  }
  const std::string& from = run.resumed_from;
  broadcast_text(*job.group, from.empty() ? "" : fs::absolute(from).string());
}

/// Opens the run on all ranks, in one state. Only rank 0 writes.
void start_run(Job& job, const RunRequest& request, OpenRun& run) {
  const auto start = std::chrono::steady_clock::now();
  if (job.group->is_main()) {
    lead(job, request, run);
  } else {
    follow(job, request, run);
  }
  if (job.is_undrawn && !run.saved) {
    throw CheckpointError(
        "the checkpoints of '" + request.run_dir + "' have gone since this process started",
        "start it again, if they are to be gone");
  }
  tell_other_ranks(job, run);
  run.saved.reset();
  run.read_seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::error_code ignored;  // a machine without the folder goes without logs
  if (fs::is_directory(run.dir + "/logs", ignored)) {
    log_to_file(run.dir + "/logs/rank-" + std::to_string(job.group->rank()) + ".log");
  }
}

}  // namespace

bool has_checkpoint(const RecipeOptions& recipe, const RunRequest& request) {
  if (recipe.checkpoint.resume.kind == ResumeFrom::Kind::kPath) return false;
  DiskFiles files;
  return !CheckpointStore(files, request.run_dir).list().empty();
}

ExitCode run_job(Job& job, const RunRequest& request) {
  const std::string dir = fs::absolute(request.run_dir).lexically_normal().string();
  const Deadline checked(job.recipe.checkpoint.deadline);  // throws before anything is written
  OpenRun run(dir);
  start_run(job, request, run);
  RunRecord record;
  if (job.group->is_main()) record = {dir + "/metrics.jsonl", run.state.progress.step};
  const std::string start = start_text(job, run);
  for (const std::string& line : first_screen(job, request.run_dir, start)) say(line);
  if (const std::string few = few_samples_warning(job); !few.empty()) warn(few);
  if (job.group->is_main()) {
    const bool resumed = !run.resumed_from.empty();
    record_beginning(job, {run.state.progress.step, resumed, start, run.changes, request.forecast},
                     record);
  }
  const PlanCheck plan(request.forecast, record);
  TrackerThread trackers(std::move(run.trackers), &warn);
  trackers.config(flat_values(job.resolved));

  const auto close = [&](RunStatus status) {
    trackers.finish(status);
    close_log_file();
  };
  try {
    TrainLoop loop({job, run.store, record, trackers, dir, job.group->is_main(), &plan}, run.state,
                   run.recipe_changed ? "" : run.resumed_from);
    const LoopEnd ended = loop.run(request.stop_after);
    // That of the first step has been told.
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
    try {
      record.event(run.state.progress.step, "failed", error.what());
      record.flush();
      if (job.group->is_main()) report_on(request.run_dir);
      close(RunStatus::kFailed);
    } catch (const std::exception& also) {
      warn(also.what());  // what ended the run is what the user has to know
    }
    throw;
  }
}

}  // namespace accel
