// Matrix products of raw memory, without tensors.
#pragma once

#include <cstdint>

namespace accel {

/// Row-major float32 with row stride `step`; transposed if `turned`.
struct MatrixPart {
  const float* data;
  int64_t step;
  bool turned = false;
};

/// [rows, inner] x [inner, columns].
struct ProductShape {
  int64_t rows, columns, inner;
};

struct ProductTarget {
  float* data;
  int64_t step;
  bool add = false;  ///< adds to the target; otherwise it is not read
};

/// Whether libtorch's BLAS is available.
bool has_matrix_product();
/// Writes a * b to `to`, in the calling thread alone; the bits do not depend on the number of
/// threads of the process. There is no scale factor, because with one they would not be.
void matrix_product(const MatrixPart& a, const MatrixPart& b, const ProductShape& shape,
                    const ProductTarget& to);

}  // namespace accel
