// The end of a run, and commands to it: signals, deadlines, `until`, callbacks and `ctl`.
#pragma once

#include <cstdint>
#include <string>

#include "train/control/run_control.h"
#include "train/loop/async_checkpointer.h"
#include "train/loop/deadline.h"
#include "train/loop/loop_context.h"
#include "train/loop/run_state.h"

namespace accel {

class ControlHook {
 public:
  /// The arguments outlive it. The state is the one the loop starts from.
  ControlHook(LoopProgress progress, const AsyncCheckpointer& checkpointer);

  /// Whether the run has reached its planned end.
  bool is_finished();
  /// Whether this rank received a signal or is near its deadline.
  bool must_stop() const;
  /// Whether this rank must stop or has a command to apply after `step` steps.
  bool is_pending(int64_t step) { return must_stop() || control_.waiting(step); }
  /// Whether any rank must stop. All ranks call it.
  bool any_must_stop() const;
  /// Whether any rank has a command to apply before the first step. All ranks call it.
  bool any_command(int64_t step);
  /// Applies pending commands between two steps; whether the run has to end. All ranks call it.
  bool apply(const RunControlActions& actions);
  /// The duration of a step, for the deadline.
  void add_step(double seconds);
  /// An interrupted run ends: finds its reason, if not known yet.
  void note_reason();
  /// Whether an interrupted run ends by its user's command, not to be restarted automatically.
  bool is_stopped_by_command() const;

  /// Why the run stopped before its planned end; else empty.
  const std::string& stop_reason() const { return stop_reason_; }

 private:
  const LoopContext& context_;
  const RunState& state_;
  const AsyncCheckpointer& checkpointer_;
  RunControl control_;
  Deadline deadline_;
  double slowest_step_ = 0;  ///< seconds
  std::string stop_reason_;
  bool stop_commanded_ = false;  ///< by the command `stop`
};

}  // namespace accel
