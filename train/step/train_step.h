// One optimizer step of a job.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "train/job/job.h"
#include "train/step/step_inputs.h"

namespace accel {

struct StepResult {
  double loss = 0;            ///< mean over the global batch's samples or tokens
  double grad_norm = 0;       ///< of the true gradients, before clipping
  bool pending = false;       ///< both are still to be read from StepHeader::readback
  bool updated = true;        ///< false when fp16 overflowed and an update was skipped
  bool stop = false;          ///< a rank wants the run to end after this step
  bool all_saved = false;     ///< StepHeader::saved of all ranks
  double seconds = 0;         ///< rank 0's StepHeader::seconds
  RankNumbers computed = {};  ///< StepHeader::computed, by rank
  std::map<std::string, double> logged = {};  ///< by the task
};

/// The ranks exchange their step headers and the weights of their micro-batches; then the task
/// steps, as Task::step() and StepContext say, with the learning rates the optimizers have. Losses
/// are weighted by the samples or tokens of each micro-batch, so that a global batch over all ranks
/// equals one large batch, an epoch's short last one included. `before_update` is called, if given,
/// before a parameter or an optimizer's state changes. Throws DivergedError before any weight of an
/// update changes when its loss or a gradient is not finite; with a StepHeader::readback, read()
/// may say so later, and repeating the step throws it.
StepResult train_step(Job& job, const GlobalBatch& global_batch, const StepHeader& header,
                      Stopwatch& watch, const std::function<void()>& before_update = {});

}  // namespace accel
