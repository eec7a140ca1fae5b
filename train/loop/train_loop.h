// The training loop.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/loop/completion_log.h"
#include "train/loop/control_hook.h"
#include "train/loop/eval_hook.h"
#include "train/loop/log_hook.h"
#include "train/loop/loop_context.h"
#include "train/loop/progress_hook.h"
#include "train/loop/run_state.h"
#include "train/loop/save_hook.h"
#include "train/loop/step_profile.h"
#include "train/step/step_readback.h"
#include "train/step/stopwatch.h"
#include "train/step/train_step.h"

namespace accel {

/// Why the loop returned. kStopped: by command of the user, not to be restarted automatically.
enum class LoopEnd { kFinished, kInterrupted, kStopped };

/// Steps, and after each step logs, evaluates, saves and applies commands in a fixed order, so that
/// a resumed run computes exactly what an uninterrupted one does.
class TrainLoop {
 public:
  /// Continues from `state`; `checkpoint` is the path of that state, empty when it is not saved
  /// yet.
  TrainLoop(const LoopContext& context, RunState state, const std::string& checkpoint);

  /// Runs to the end of the run, a signal, a deadline, or `stop_after` steps (handled as a signal).
  /// An interrupted run saves its last state, a finished one under `checkpoint.at_end`.
  LoopEnd run(std::optional<int64_t> stop_after = std::nullopt);

  const RunState& state() const { return state_; }
  const Stopwatch& watch() const { return watch_; }
  /// The newest checkpoint, written by this loop or resumed from; empty when there is none.
  const std::string& last_checkpoint() const { return save_.checkpointer().last_checkpoint(); }
  /// Optimizer steps of this loop.
  int64_t steps_done() const { return state_.progress.step - first_step_; }
  bool has_saved() const { return save_.has_saved(); }
  const std::string& stop_reason() const { return control_.stop_reason(); }

 private:
  /// A step whose numbers are still on the device.
  struct PendingStep {
    GlobalBatch global_batch;
    StepResult result;
    double lr;
  };

  LoopEnd run_steps(std::optional<int64_t> stop_after);
  /// Prepares the first step; whether the run is to end before it.
  bool on_start();
  void preallocate_optimizer();
  void step();
  /// Sets the learning rates of the next update.
  void set_lrs();
  StepHeader header();
  /// Runs the step; the first one of a process reduces the micro-batch until it fits into memory.
  StepResult make_step(GlobalBatch& global_batch, StepHeader header);
  /// Records the last step, if its numbers are still on the device. Throws DivergedError.
  void settle();
  /// settle() before an error ends the run. A divergence is thrown instead, as it came first.
  void settle_before_error();
  /// `lr`: the step's first.
  void record_step(const GlobalBatch& global_batch, const StepResult& result, double lr);
  void after_step();
  /// Draws the progress display, with the cost of the pauses still to come.
  void show_progress();
  /// Checks after the first step, when all optimizer state is allocated.
  /// To trackers, at most every five seconds.
  void report_progress();
  void after_first_step();
  /// Whether the run is to end after the last step, by a signal, a deadline or a command.
  bool is_interrupted();
  /// The last evaluation and the last save.
  LoopEnd on_end(bool interrupted);
  /// Saves the last state if `save` and it is not saved yet, and waits for the save under way.
  void finish_saves(bool save);
  bool apply_commands();
  /// Seconds since the start of the process: rank 0's at the current step, which all ranks use.
  double clock() const;

  LoopContext context_;
  RunState state_;
  Stopwatch watch_;
  std::unique_ptr<StepReadback> readback_;  ///< null: steps read their numbers
  std::optional<PendingStep> pending_;
  const std::function<void()> settle_ = [this] { settle(); };
  LogHook log_;
  SaveHook save_;
  ControlHook control_;
  EvalHook eval_;
  CompletionLog completions_;
  StepProfile profile_;
  ProgressHook progress_;
  std::vector<double> lrs_;               ///< of the step, by optimizer group
  GlobalBatch recycled_batch_;            ///< the last step's, its memory reused for the next
  bool stop_or_command_pending_ = false;  ///< reported by any rank at the start of the last step
  bool all_shards_written_ = false;       ///< of a save, at the start of the last step
  double clock_ = 0;                      ///< StepResult::seconds of the last step
  double seconds_before_;                 ///< of earlier processes
  int64_t first_step_;
  double busy_ = 0;         ///< Stopwatch::busy() when the last step began
  double next_report_ = 0;  ///< Stopwatch::total() at which progress is due
};

}  // namespace accel
