// One optimizer step.
#pragma once

#include <functional>
#include <vector>

#include "runner/job/job.h"
#include "runner/loop/stopwatch.h"

namespace accel {

struct StepResult {
  double loss = 0;       ///< mean over the window's samples or tokens
  double grad_norm = 0;  ///< total, of the true gradients, before clipping
  bool updated = true;   ///< false when fp16 overflowed and the step was skipped
};

/// Forward and backward over the window's micro-batches, then at most one update with the learning
/// rates the optimizer has. The losses are weighted by what each micro-batch holds, so that a
/// window equals one big batch, an epoch's short tail included. Throws DivergedError before any
/// weight is touched when the loss or a gradient is not finite; `step` is for its message.
/// `before_update` is called, if given, before a parameter or the optimizer's state changes.
StepResult train_step(Job& job, const std::vector<Batch>& window, int64_t step, Stopwatch& watch,
                      const std::function<void()>& before_update = {});

}  // namespace accel
