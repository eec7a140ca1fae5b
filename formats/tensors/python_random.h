// States of Python's and NumPy's global generators after seeding, for checkpoints that Python
// reads.
#pragma once

#include <array>
#include <cstdint>

namespace accel {

/// State words of a freshly seeded Mersenne Twister (MT19937), at position 624.
using MersenneState = std::array<uint32_t, 624>;

/// random.seed(seed)
MersenneState python_random_state(uint64_t seed);

/// numpy.random.seed(seed)
MersenneState numpy_random_state(uint32_t seed);

}  // namespace accel
