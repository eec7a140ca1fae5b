// The inputs of one optimizer step, and its failure for lack of memory.
#pragma once

#include <c10/util/SmallVector.h>

#include <cstdint>
#include <functional>

#include "core/base/error.h"
#include "data/loader/loader.h"
#include "train/step/stopwatch.h"

namespace accel {

/// A number for each rank or micro-batch, without heap allocation for a few.
using RankNumbers = c10::SmallVector<double, 8>;

/// The samples or tokens of each micro-batch of a global batch, on all ranks.
struct MicroBatchWeights {
  RankNumbers weights;
  double total = 0;

  double of(int64_t micro_batch_index) const {
    return weights[static_cast<size_t>(micro_batch_index)];
  }
};

/// A pass over one micro-batch does not fit into a rank's memory; all ranks throw it, and nothing
/// has changed but buffers, random state and gradients.
class OutOfMemory : public Error {
 public:
  explicit OutOfMemory(int64_t micro_batch);
};

class StepReadback;

/// A rank's contribution to the all-reduce at the start of a step, and how it runs its part.
struct StepHeader {
  int64_t step = 0;                  ///< from 1
  bool stop = false;                 ///< this rank wants the run to end
  double seconds = 0;                ///< by this rank's clock
  double computed = 0;               ///< seconds of computation of this rank in the step before
  bool saved = false;                ///< this rank has written its part of the save under way
  bool is_first = false;             ///< of this process
  bool careful = false;              ///< a rank without memory makes all ranks throw OutOfMemory
  StepReadback* readback = nullptr;  ///< where loss and norm may stay for now; null: in the step
};

/// All of it outlives the step.
struct StepInputs {
  const GlobalBatch& global_batch;
  const StepHeader& header;
  Stopwatch& watch;
  const std::function<void()>& before_update;
};

}  // namespace accel
