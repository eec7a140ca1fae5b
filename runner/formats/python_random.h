// What Python's and NumPy's global generators hold after seeding, so that a checkpoint has the
// states a Python run of the same seed would have.
#pragma once

#include <array>
#include <cstdint>

namespace accel {

/// The words of a Mersenne Twister (MT19937) that has drawn nothing yet: its position is 624.
using MersenneState = std::array<uint32_t, 624>;

/// random.seed(seed)
MersenneState python_random_state(uint64_t seed);

/// numpy.random.seed(seed)
MersenneState numpy_random_state(uint32_t seed);

}  // namespace accel
