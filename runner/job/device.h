// Where a process computes: the CPU, or the GPU that is its own.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "runner/job/recipe_values.h"

namespace accel {

/// Loads what a GPU needs of libtorch, if `choice` and the machine ask for one, and makes the
/// `local_rank`-th current. To be called before anything else asks libtorch about devices; once is
/// enough. `gpu_ids` are those to choose among, "all" or "0,1". auto is the CPU where no GPU, or no
/// libtorch for it, is found. Throws Error (kRecipe) when cuda is not to be had, or when this
/// machine has fewer GPUs than ranks.
at::Device choose_device(DeviceChoice choice, const std::string& gpu_ids, int64_t local_rank);

/// "cpu", or "cuda (NVIDIA H200)".
std::string device_text(at::Device device);

}  // namespace accel
