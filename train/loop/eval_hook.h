// Evaluations of the loop: when due, with the best result so far.
#pragma once

#include <functional>

#include "train/loop/log_hook.h"
#include "train/loop/loop_context.h"
#include "train/loop/progress_hook.h"
#include "train/loop/run_state.h"
#include "train/loop/save_hook.h"
#include "train/loop/trigger.h"
#include "train/step/stopwatch.h"

namespace accel {

/// Evaluates as the recipe's `eval` section configures. All ranks call the same.
class EvalHook {
 public:
  /// Whether any rank must stop, asked between batches.
  using MustStop = std::function<bool()>;

  /// The arguments outlive it.
  EvalHook(LoopProgress progress, LogHook& log, SaveHook& save, MustStop must_stop);

  /// Evaluates before the first step where the recipe or an interrupted evaluation wants it.
  void on_start();
  /// Evaluates when due, and after the last step. `seconds`: since the start of the process.
  void after_step(double seconds, bool last);
  /// Evaluates the current state unless that is done. An improvement is saved.
  void evaluate_once();
  /// Evaluates for the command `eval`: a saved state is saved again with the results.
  void evaluate_now();
  /// The evaluations after this step, of a run whose other steps take `seconds`.
  PauseCost cost_left(double seconds) const;
  /// The period `eval.every` has changed.
  void set_period(double seconds);

 private:
  void run();
  bool update_best();
  /// Saves an improvement, after all values of the step are logged: a process that resumes from it
  /// does not log them again.
  void save_best();

  const LoopContext& context_;
  RunState& state_;
  Stopwatch& watch_;
  const std::function<void()>& settle_;
  LogHook& log_;
  SaveHook& save_;
  MustStop must_stop_;
  Trigger due_;
  int64_t finished_ = 0;   ///< evaluations of this process
  bool improved_ = false;  ///< the last evaluation is the best, and not saved yet
};

}  // namespace accel
