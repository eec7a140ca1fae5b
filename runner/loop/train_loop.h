// The fixed order of events of every run.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>

#include "runner/checkpoint/store.h"
#include "runner/job/job.h"
#include "runner/loop/deadline.h"
#include "runner/loop/interval.h"
#include "runner/loop/plan_check.h"
#include "runner/loop/progress_bar.h"
#include "runner/loop/run_state.h"
#include "runner/loop/saving.h"
#include "runner/loop/steering.h"
#include "runner/loop/step_profile.h"
#include "runner/loop/stopwatch.h"
#include "runner/loop/stragglers.h"
#include "runner/loop/train_step.h"
#include "runner/loop/trigger.h"
#include "runner/track/record.h"
#include "runner/track/system_metrics.h"

namespace accel {

/// Why a loop returned.
/// kStopped: by its user, who does not want it to go on by itself.
enum class LoopEnd { kFinished, kInterrupted, kStopped };

/// What the loop works with; all of it outlives the loop.
struct LoopParts {
  Job& job;
  CheckpointStore& store;
  RunRecord& record;
  TrackerThread& trackers;
  std::string run_dir = ".";
  bool saves = true;  ///< rank 0 does, for all
  const PlanCheck* plan = nullptr;
};

/// Steps, logs, evaluates, saves and stops, always in this order, so that a resumed run does
/// exactly what an uninterrupted one does.
class TrainLoop {
 public:
  /// Goes on from `state`; `checkpoint` is where that state is kept, empty when it is to be saved.
  TrainLoop(const LoopParts& parts, RunState state, std::string checkpoint);

  /// Runs to the end of the run, to a signal or a deadline, or to `stop_after` steps if that comes
  /// first (then as if a signal had come). Whatever it returns, the last state is saved if the
  /// recipe saves.
  LoopEnd run(std::optional<int64_t> stop_after = std::nullopt);

  const RunState& state() const { return state_; }
  const Stopwatch& watch() const { return watch_; }
  /// The newest checkpoint, written by this loop or resumed from; empty when there is none.
  const std::string& last_checkpoint() const { return saving_.last_checkpoint(); }
  /// Steps this loop has made itself.
  int64_t steps_done() const { return state_.progress.step - first_step_; }
  /// Whether there is a checkpoint to go on from, as far as this rank knows: one that saves nothing
  /// itself knows that it took part.
  bool has_saved() const { return parts_.saves ? !last_checkpoint().empty() : saved_step_ >= 0; }
  /// Why it stopped before its planned end; empty when it did not.
  const std::string& stop_reason() const { return stop_reason_; }

 private:
  bool finished();
  /// A signal came, or the deadline is near: what this rank knows.
  bool must_stop() const;
  /// Does what is asked of the run between two steps; whether it is to end. All ranks together.
  bool steer();
  /// What a save is to be called once it is there.
  std::string save_now();
  /// An option has another value.
  void changed(const std::string& key);
  /// Whether any rank must stop: to be asked by all together.
  bool any_must_stop();
  /// The time by which all ranks go: rank 0's, as of the step under way.
  double clock() const;
  void step();
  /// Makes the step; the first one of a process with as large micro-batches as memory holds.
  StepResult make_step(Window& window, StepAsk ask);
  void after_step();
  void log_interval();
  /// Tells the record what was used since it was last told.
  void record_use();
  void evaluate_now();
  bool update_best(const std::map<std::string, double>& results);
  /// Whether a checkpoint of this state and `more` bytes fits on the disk.
  void check_space(int64_t more);
  void save();
  double training_seconds() const;

  LoopParts parts_;
  RunState state_;
  Stopwatch watch_;
  Trigger log_due_;
  Trigger histograms_due_;
  Trigger eval_due_;
  Trigger save_due_;
  ProgressBar bar_;
  Interval interval_;        ///< since the last log line
  std::vector<double> lrs_;  ///< the step's, of the optimizer's groups
  Window spent_;             ///< the last step's: memory for the next
  bool asked_ = false;       ///< by a rank at the start of the last step: to stop or to be steered
  double clock_ = 0;
  double seconds_before_;  ///< of earlier lives
  int64_t first_step_;
  int64_t saved_step_;
  double slowest_step_ = 0;  ///< seconds
  double busy_ = 0;          ///< Stopwatch::busy() when the last step began
  Stragglers stragglers_;
  StepProfile profile_;
  Deadline deadline_;
  Saving saving_;
  Steering steering_;
  std::optional<SystemMetrics> system_;
  std::vector<std::pair<std::string, double>> told_;  ///< the watch's phases, of record_use()
  std::string stop_reason_;
  bool ordered_ = false;  ///< to stop
};

}  // namespace accel
