// Sums of squares over float32 in memory.
#pragma once

#include <cstdint>

namespace accel {

/// The sum of x[i]^2, within 1e-6 of its value: of blocks of 4096 in float32, of those in float64.
void sum_of_squares_cpu(const float* x, int64_t count, double* sum);

}  // namespace accel
