// One optimizer step.
#pragma once

#include <c10/util/SmallVector.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "data/loader.h"
#include "runner/job/job.h"
#include "runner/loop/stopwatch.h"

namespace accel {

/// Numbers of some ranks or their micro-batches, of which a few need no memory from the heap.
using RankNumbers = c10::SmallVector<double, 8>;

struct StepResult {
  double loss = 0;            ///< mean over the window's samples or tokens
  double grad_norm = 0;       ///< total, of the true gradients, before clipping
  bool updated = true;        ///< false when fp16 overflowed and an update was skipped
  bool stop = false;          ///< a rank wants the run to end after this step
  double seconds = 0;         ///< what rank 0 gave as StepAsk::seconds
  RankNumbers computed = {};  ///< by rank: what each gave as StepAsk::computed
  std::map<std::string, double> logged = {};  ///< by the task
};

/// A rank's memory does not hold a pass over one micro-batch; all ranks know, and nothing has
/// changed but buffers, random state and gradients.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(int64_t micro_batch);
};

/// What the ranks tell each other at the start of a step, besides the weights of their parts.
struct StepAsk {
  int64_t step = 0;      ///< from 1
  bool stop = false;     ///< this rank wants the run to end
  double seconds = 0;    ///< by this rank's clock
  double computed = 0;   ///< seconds this rank computed for in the step before
  bool careful = false;  ///< tell all ranks when one is out of memory, by OutOfMemory
};

/// What a step works on; all of it outlives the step.
struct StepWork {
  const Window& window;
  const StepAsk& ask;
  Stopwatch& watch;
  /// Called, if given, before a parameter or an optimizer's state changes.
  const std::function<void()>& before_update;
};

/// The ranks tell each other what their parts of the window weigh; then the task makes its step of
/// it, as Task::step() and StepContext say, with the learning rates the optimizers have. The losses
/// are weighted by what each micro-batch holds, so that a window, over all ranks, equals one big
/// batch, an epoch's short tail included. Throws DivergedError before any weight of an update is
/// touched when its loss or a gradient is not finite.
StepResult train_step(Job& job, const Window& window, const StepAsk& ask, Stopwatch& watch,
                      const std::function<void()>& before_update = {});

}  // namespace accel
