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
/// Into `to`, in as many threads as it takes: one inside of at::parallel_for, where its bits are
/// those of one thread. So it has no factor: with one they are not.
void matrix_product(const MatrixPart& a, const MatrixPart& b, const ProductShape& shape,
                    const ProductTarget& to);

}  // namespace accel
