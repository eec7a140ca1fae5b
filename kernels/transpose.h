// Transposed copies of matrices, such as the weights of GPT-2's folders.
#pragma once

#include <cstdint>

namespace accel {

/// A matrix in row-major order; `step`: elements from a row to the next one.
struct MatrixSource {
  const float* data;
  int64_t rows, columns, step;
};

/// to[c * to_step + r] = from[r, c], in tiles that stay in the cache, on PyTorch's threads.
void copy_transposed(const MatrixSource& from, float* to, int64_t to_step);

}  // namespace accel
