// Rows of logits in float32 in memory.
#pragma once

#include <cstdint>

namespace accel {

/// log(sum of e^x[i]), of one number at least. NaN where an x is, and where the largest is not
/// finite.
void log_sum_exp_cpu(const float* x, int64_t count, float* sum);

/// dx[i] = scale * e^(x[i] - log_sum): the softmax of x, `log_sum` being its log_sum_exp_cpu().
void scaled_softmax_cpu(const float* x, float log_sum, float scale, float* dx, int64_t count);

}  // namespace accel
