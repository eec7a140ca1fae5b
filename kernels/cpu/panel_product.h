// Matrix products in float32 whose right factor stays in the cache: it is packed into panels of
// columns, and tiles of the result stay in registers (Goto and van de Geijn, Anatomy of
// High-Performance Matrix Multiplication, 2008).
#pragma once

#include "kernels/cpu/matrix_product.h"

namespace accel {

/// Floats of the panels of a matrix [inner, columns].
int64_t panel_numbers(int64_t inner, int64_t columns);

/// Packs b [inner, columns] of a shape. Panels begin at whole cache lines, or loads from them take
/// twice as long.
void pack_panels(const MatrixPart& b, const ProductShape& shape, float* panels);

struct PackedMatrix {
  const float* panels;
  const float* bias = nullptr;  ///< [columns], added to each row unless the target is
};

/// Writes a * b to `to`. Each element is one sum in the order of `inner`, with FMA where the
/// processor has it, to which the target (to.add) or the bias is then added.
void panel_product(const MatrixPart& a, const PackedMatrix& b, const ProductShape& shape,
                   const ProductTarget& to);

/// matrix_product() of matrices that fit in the first or second cache, by panels on Intel's
/// processors with AVX-512, with 256 KiB of memory that stay with the thread. With AVX2 MKL is as
/// fast or faster.
void small_product(const MatrixPart& a, const MatrixPart& b, const ProductShape& shape,
                   const ProductTarget& to);

}  // namespace accel
