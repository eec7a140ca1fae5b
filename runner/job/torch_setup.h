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

/// Seeds the default CPU generator, as torch.manual_seed does.
void seed_generator(uint64_t seed);
/// Its state, uint8 [5056], as torch.get_rng_state gives it.
at::Tensor generator_state();
void set_generator_state(const at::Tensor& state);

/// What a bit-exact resume depends on besides the recipe: versions, threads, CPU capability.
std::map<std::string, std::string> environment_facts();

}  // namespace accel
