#include "core/base/cpu_target.h"
#include "kernels/cpu/loops.h"

namespace accel {
namespace {

constexpr int64_t kRowsAtOnce = 4;  // for which a sum is read and written once

ACCEL_PART_OF_LOOP void add_rows(const VectorRows<const float>& rows, float* __restrict sums) {
  const float* x = rows.data;
  const int64_t step = rows.step, width = rows.width;
  int64_t row = 0;
  for (; row + kRowsAtOnce <= rows.count; row += kRowsAtOnce, x += kRowsAtOnce * step) {
    for (int64_t i = 0; i < width; ++i) {
      sums[i] += (x[i] + x[step + i]) + (x[2 * step + i] + x[3 * step + i]);
    }
  }
  for (; row < rows.count; ++row, x += step) {
    for (int64_t i = 0; i < width; ++i) sums[i] += x[i];
  }
}

}  // namespace

ACCEL_FOR_EACH_CPU(add_rows_cpu, add_rows, (const VectorRows<const float>& rows, float* sums),
                   (rows, sums))

}  // namespace accel
