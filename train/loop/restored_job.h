// A job with the weights of a checkpoint, for passes outside of a run.
#pragma once

#include <cstdint>
#include <string>

#include "train/job/job.h"

namespace accel {

/// Restores the checkpoint `folder` on all ranks, which call it; each reads its shares. Returns its
/// step. Throws CheckpointError on all of them.
int64_t restore_checkpoint(Job& job, const std::string& folder);

}  // namespace accel
