// What the steps between two log lines did.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/tracker.h"
#include "runner/loop/train_step.h"

namespace accel {

struct EndOfInterval {
  double lr, epoch;
  double now;  ///< seconds of training
};

/// Sums over steps.
struct Interval {
  double loss = 0;
  double grad_norm = 0;
  int64_t steps = 0;
  int64_t samples = 0;
  int64_t tokens = 0;
  /// By the task: sums, and of how many steps.
  std::map<std::string, std::pair<double, int64_t>> logged = {};
  double seconds = 0;  ///< of training, when it began

  void add(const StepResult& result, int64_t step_samples, int64_t step_tokens);
  /// Means over the steps, one or more, and speeds, where the interval ends at `now`.
  std::vector<Measurement> measured(const EndOfInterval& end) const;
};

}  // namespace accel
