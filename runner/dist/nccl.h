// NCCL's collectives between GPUs, from a library that only a process with GPUs loads.
#pragma once

#include "runner/dist/c10d_group.h"

namespace accel {

/// Ranks on the CUDA device `index` of each machine. What it makes throws Error (kRank) where
/// libaccel_cuda.so is not there or NCCL refuses.
BackendMaker nccl_backend(int index);

}  // namespace accel
