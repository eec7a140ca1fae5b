// The order in which an epoch visits a dataset.
#pragma once

#include <cstdint>
#include <vector>

namespace accel {

/// The numbers 0..n-1 shuffled: bit for bit what `torch.randperm(n, generator=g)` gives for a CPU
/// generator seeded with `seed`. Eight bytes per number.
std::vector<int64_t> permutation(int64_t n, uint64_t seed);

/// The order of one epoch, equal to Accelerate's seedable sampler: permutation(n, seed + epoch).
std::vector<int64_t> epoch_permutation(int64_t n, uint64_t seed, int64_t epoch);

}  // namespace accel
