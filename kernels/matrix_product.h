// Products of matrices where they lie, without tensors around them.
#pragma once

#include <cstdint>

namespace accel {

/// Rows of float32 numbers, `step` apart; as its transpose where `turned`.
struct MatrixPart {
  const float* data;
  int64_t step;
  bool turned = false;
};

/// rows x inner times inner x columns.
struct ProductShape {
  int64_t rows, columns, inner;
};

struct ProductTarget {
  float* data;
  int64_t step;
  bool add = false;  ///< to what is there, which is not read otherwise
};

/// Whether the linear algebra that libtorch brings along can be called so.
bool has_matrix_product();
/// Into `to`, by it, in as many threads as it takes: one inside of at::parallel_for. It has no
/// factor, because with one the bits of some products depend on the threads around them.
void matrix_product(const MatrixPart& a, const MatrixPart& b, const ProductShape& shape,
                    const ProductTarget& to);

}  // namespace accel
