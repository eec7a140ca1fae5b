// Seeds that a torch DataLoader without `generator` draws from the default CPU generator,
// which dropout uses as well: `compat.dataloader_generator: shared`. torch/utils/data/dataloader.py
// and sampler.py, in one process: each iterator draws a base seed, then a RandomSampler the seed of
// its permutation; Accelerate's seedable sampler draws nothing.
#pragma once

#include "train/job/job.h"
#include "train/loop/run_state.h"

namespace accel {

/// The draws at the start of an epoch; without the seedable sampler they set the order of the
/// epoch's samples and `state.sampler_seed`. Call it before the epoch's first batch is taken.
void draw_epoch_seeds(const Job& job, RunState& state);

/// The draw of an evaluation. Call it when an evaluation is due, not when it runs: one that is
/// interrupted runs again in the next process.
void draw_evaluation_seed(const Job& job);

}  // namespace accel
