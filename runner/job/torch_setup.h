// The few process-wide switches of libtorch, set from the recipe.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "core/batch.h"

namespace accel {

/// Threads that operators use; `auto` (0) is the number of cores this process may run on.
void set_threads(int64_t threads);
/// Cores that this process may use.
int64_t usable_cores();
int64_t threads();

/// Refuses operators without a deterministic implementation.
void set_deterministic(bool on);

/// Seeds the default generators, of the CPU and of all devices there are, as torch.manual_seed.
void seed_generator(uint64_t seed);
/// The state of the CPU's, uint8 [5056], as torch.get_rng_state gives it.
at::Tensor generator_state();
void set_generator_state(const at::Tensor& state);
/// Those of the devices of `type`, uint8 [devices, bytes]; undefined for the CPU.
at::Tensor device_generator_states(at::DeviceType type);
/// That of one device.
void set_device_generator_state(at::Device device, const at::Tensor& state);
/// Draws of one device's begin anew.
void seed_device_generator(at::Device device, uint64_t seed);

/// What a bit-exact resume depends on besides the recipe: versions, threads, CPU capability,
/// the processor's maker and family.
std::map<std::string, std::string> environment_facts();

}  // namespace accel
