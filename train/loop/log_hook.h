// Logging of the loop: each step to the record, means over intervals to terminal and trackers.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "track/system_metrics.h"
#include "train/loop/loop_context.h"
#include "train/loop/run_state.h"
#include "train/loop/stragglers.h"
#include "train/loop/trigger.h"
#include "train/step/stopwatch.h"
#include "train/step/train_step.h"

namespace accel {

/// Number of tokens of `samples` samples; 0 where the data is not text.
int64_t tokens_of(const Job& job, int64_t samples);

/// Logs as the recipe's `log` section configures.
class LogHook {
 public:
  /// The argument's members outlive it.
  explicit LogHook(LoopProgress progress);

  /// Logs the first `log.images` inputs of a run's first global batch.
  void log_images(const GlobalBatch& global_batch);
  /// Records a step; `lr` is its first group's. The state is that after the step.
  void add_step(const GlobalBatch& global_batch, const StepResult& result, double lr);
  /// Logs the texts that callbacks have made.
  void log_texts();
  /// Logs what is due, and prints the line of the first step of this process. `seconds`: since the
  /// start of the process.
  void after_step(double seconds, bool last);
  /// Logs the last, incomplete interval.
  void log_rest();
  /// Records time and memory used since the last call.
  void record_use();
  /// The period `log.every` has changed.
  void set_period(double seconds);

 private:
  /// What this process has done since the last log line or its own start: a checkpoint saves the
  /// sums of the interval, RunState::interval, but no throughput.
  struct Throughput {
    int64_t steps = 0;
    int64_t samples = 0;
    double started = 0;  ///< training_seconds() at its start
  };

  /// Means of the interval, and its throughput.
  std::vector<Measurement> means() const;
  void log_interval();
  void log_histograms();
  double training_seconds() const;

  const LoopContext& context_;
  RunState& state_;
  const Stopwatch& watch_;
  const std::function<void()>& settle_;
  Trigger due_;
  Trigger histograms_due_;
  Throughput throughput_;
  bool has_printed_ = false;  ///< a log line
  Stragglers stragglers_;
  std::optional<SystemMetrics> system_;
  /// Stopwatch::phases() at the last record_use().
  std::vector<std::pair<std::string, double>> last_phase_times_;
};

}  // namespace accel
