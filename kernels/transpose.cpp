#include "kernels/transpose.h"

#include <algorithm>

#include "kernels/cpu/parallel.h"

namespace accel {
namespace {

constexpr int64_t kTile = 16;  // floats of a cache line

/// kTile rows and columns.
void copy_tile(const float* from, int64_t step, float* to, int64_t to_step) {
  for (int64_t column = 0; column < kTile; ++column) {
    for (int64_t row = 0; row < kTile; ++row)
      to[column * to_step + row] = from[row * step + column];
  }
}

void copy_part(const MatrixSource& from, float* to, int64_t to_step) {
  for (int64_t column = 0; column < from.columns; ++column) {
    for (int64_t row = 0; row < from.rows; ++row) {
      to[column * to_step + row] = from.data[row * from.step + column];
    }
  }
}

}  // namespace

void copy_transposed(const MatrixSource& from, float* to, int64_t to_step) {
  for_each_part(from.columns, kTile, [&](int64_t begin, int64_t end) {
    for (int64_t column = begin; column < end; column += kTile) {
      const int64_t columns = std::min(kTile, end - column);
      for (int64_t row = 0; row < from.rows; row += kTile) {
        const MatrixSource tile = {.data = from.data + row * from.step + column,
                                   .rows = std::min(kTile, from.rows - row),
                                   .columns = columns,
                                   .step = from.step};
        float* const at = to + column * to_step + row;
        if (tile.rows == kTile && columns == kTile) {
          copy_tile(tile.data, from.step, at, to_step);
        } else {
          copy_part(tile, at, to_step);
        }
      }
    }
  });
}

}  // namespace accel
