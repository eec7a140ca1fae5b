// Process-wide settings of libtorch: threads, determinism, random generators.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/api/batch.h"
#include "core/base/environment.h"
#include "parallel/communicator.h"

namespace accel {

struct AcceleratorSection;
struct RecipeOptions;

/// Sets the process's allocator, kernels, threads and determinism to the options `accelerator` and
/// `train` of a recipe, for a rank beside `local_world` - 1 others. Must precede any computation.
void set_up_torch(const RecipeOptions& recipe, int64_t local_world);

/// Threads of operators; 0 (auto): the number of usable cores.
void set_threads(int64_t threads);
int64_t threads();

/// OMP_NUM_THREADS; 0 where it is not set or no positive number.
int64_t openmp_threads(const EnvironmentLookup& lookup);
/// Threads of a rank without a setting: OMP_NUM_THREADS, as for PyTorch, else its share of the
/// usable cores.
int64_t default_threads(int64_t local_world, const EnvironmentLookup& lookup);

/// Whether set_up_torch() takes the threads of OMP_NUM_THREADS, which torchrun sets to 1.
bool takes_environment_threads(const AcceleratorSection& section);

/// Refuses operators without a deterministic implementation.
void set_deterministic(bool on);

/// Whether float32 matrix products and convolutions on GPUs are computed in TensorFloat-32.
void set_tf32(bool on);

/// Seeds the default generators of the CPU and all devices, as torch.manual_seed.
void seed_generator(uint64_t seed);
/// The state of the CPU's generator, uint8 [5056], as torch.get_rng_state.
at::Tensor generator_state();
void set_generator_state(const at::Tensor& state);
/// Draws a seed from the CPU's generator as `torch.empty((), dtype=torch.int64).random_()` does.
uint64_t draw_seed();
/// generator_state() of each rank. All ranks call it.
std::vector<at::Tensor> gather_generator_states(Communicator& world);
/// The states of the generators of all devices of `type`, uint8 [devices, bytes]; undefined for the
/// CPU.
at::Tensor device_generator_states(at::DeviceType type);
/// For one device, uint8 [bytes]; undefined for the CPU.
at::Tensor device_generator_state(at::Device device);
void set_device_generator_state(at::Device device, const at::Tensor& state);
/// Seeds the generator of one device.
void seed_device_generator(at::Device device, uint64_t seed);

/// The environment that a bit-exact resume depends on: versions, threads, CPU capability, processor
/// vendor and family.
std::map<std::string, std::string> environment_info();

}  // namespace accel
