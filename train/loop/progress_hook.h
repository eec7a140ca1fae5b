// The progress display of the loop.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "core/base/activity.h"
#include "train/loop/loop_context.h"

namespace accel {

/// The mean of the recent steps without the fastest and the slowest tenth: single slow steps, such
/// as those that wait for a disk, do not change it, and a lasting change of speed does within
/// kMostSteps steps.
class StepRate {
 public:
  static constexpr size_t kMostSteps = 100;

  StepRate() { recent_.reserve(kMostSteps); }  // a step allocates nothing

  /// The first step of a process also sets up kernels and memory, and counts only while it is the
  /// only one.
  void add(double seconds);
  /// 0 before the first step.
  double seconds_per_step() const;

 private:
  std::vector<double> recent_;
  size_t steps_ = 0;  ///< added so far
};

/// Pauses of the training of one kind: evaluations or saves.
struct PauseCost {
  double count = 0;  ///< pauses still to come
  double each = 0;   ///< mean seconds so far; 0: unknown
};

/// Shows steps, loss, speed and remaining time. The latter is that of the steps at the recent rate,
/// and of the evaluations and saves still to come at their mean cost so far.
class ProgressHook {
 public:
  /// The argument's members outlive it.
  explicit ProgressHook(LoopProgress progress);

  /// Measures the step, before evaluations and saves.
  void after_step();
  /// Whether show() would draw.
  bool is_due() const { return shown_ && shown_->is_due(); }
  /// Seconds of the remaining steps; 0: unknown.
  double steps_left_seconds() const;
  void show(PauseCost evaluations, PauseCost saves);
  /// For trackers.
  RunProgress progress(PauseCost evaluations, PauseCost saves) const;
  /// Erases the display.
  void finish() { shown_.reset(); }

 private:
  double training_seconds() const;

  const LoopContext& context_;
  const RunState& state_;
  const Stopwatch& watch_;
  StepRate rate_;
  double last_ = 0;  ///< training_seconds() at the last step
  std::optional<Activity> shown_;
};

}  // namespace accel
