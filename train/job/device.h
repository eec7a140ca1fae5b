// Device selection: the CPU, or this rank's GPU.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <string>

#include "train/recipe/recipe_values.h"

namespace accel {

/// Loads libtorch's CUDA library if `choice` and the machine call for it, and makes GPU
/// `local_rank` current. Call once, before any other use of devices. `gpu_ids`: the visible GPUs,
/// "all" or "0,1". auto is the CPU when there is no GPU or no CUDA library. With ACCEL_HOST_DEVICE,
/// the path of tests/host_device's library, cuda is its device. Throws Error (kRecipe) when cuda is
/// unavailable or this machine has fewer GPUs than ranks.
at::Device choose_device(DeviceChoice choice, const std::string& gpu_ids, int64_t local_rank);

/// Throws Error (kRecipe) unless a machine of `gpus` GPUs has one for the rank.
void require_gpu(int64_t local_rank, int64_t gpus);

/// The CPU, where the CUDA library cannot be loaded because of `missing`. Throws Error (kRecipe)
/// when a GPU is `required`.
at::Device device_without_cuda(bool required, const std::string& missing);

/// load_cuda_kernels() for fused kernels; logs why PyTorch's are used instead.
void load_gpu_kernels(at::Device device);
/// The line of the log for a problem of the library.
std::string text_without_kernels(const std::string& problem);

/// "cpu", or "cuda (NVIDIA H200)".
std::string device_text(at::Device device);

}  // namespace accel
