// Products of few rows, as of generation: the weight is read once, in the type in which it is
// stored, and never converted as a whole.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <utility>

#include "kernels/cpu/few_rows.h"

namespace accel {

/// Most rows: with 16 these products are still faster than converting the weight for one product.
inline constexpr int64_t kFewRows = 16;

/// While it lives, this thread's products of few rows without gradients use few_rows_product().
/// Its sums have another order than those of other kernels, so that training does not use it: a
/// pass that is computed again with gradients must have the same bits.
class FewRowsScope {
 public:
  FewRowsScope() : before_(std::exchange(active_, true)) {}
  ~FewRowsScope() { active_ = before_; }
  FewRowsScope(const FewRowsScope&) = delete;
  FewRowsScope& operator=(const FewRowsScope&) = delete;

  static bool is_active() { return active_; }

 private:
  static inline thread_local bool active_ = false;
  bool before_;
};

/// Whether the product of x [..., columns] with a weight on the CPU is one of few rows: in a
/// FewRowsScope, with fused kernels and without gradients.
bool has_few_rows(const at::Tensor& x);

/// A weight [rows, columns] in row-major order.
struct StoredWeight {
  enum class Type { kFloat32, kBFloat16, kInt8, k4Bit };

  Type type;
  const void* data;
  int64_t rows, columns;
  const float* table = nullptr;  ///< of 4 bits: [16]
  /// Of int8 and 4 bits: writes `count` scales from `first` on, of rows or of blocks.
  std::function<void(int64_t first, int64_t count, float* to)> scales = nullptr;
  const float* block_scales = nullptr;  ///< of 4 bits, instead of `scales` if they are in memory
  bool rounds = false;                  ///< dequantized numbers are rounded to bfloat16
};

/// Of a contiguous weight on the CPU, float32 or bfloat16, which outlives the result.
StoredWeight stored_weight(const at::Tensor& weight);

/// x [..., columns] times the transposed weight, F32 [..., rows]; x is float32 or bfloat16. Sums
/// are float32, each of columns in one order for any number of threads and of rows of x: within
/// 2^-23 * (columns / 16 + 5) * the sum of magnitudes of their terms.
at::Tensor few_rows_product(const at::Tensor& x, const StoredWeight& weight);

}  // namespace accel
