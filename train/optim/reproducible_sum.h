// Sums whose bits do not depend on the order of addition, and so not on ranks, threads and devices.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "core/api/optimizer.h"

namespace accel {

/// The sum of float64 `addends` >= 0 along a dimension, which is kept. Each is rounded to a
/// multiple of a unit that makes all partial sums exact (Demmel and Nguyen, "Fast Reproducible
/// Floating-Point Summation", ARITH 2013). `largest`, broadcastable to the result, is the maximum
/// of all `count` addends of a sum, of which the tensor may have a part. The error is at most
/// `count` * 2^(2 * log2(count) - 53) of `largest`.
at::Tensor reproducible_sum(const at::Tensor& addends, int64_t dim, const at::Tensor& largest,
                            int64_t count);

/// The sum of squares of each row of `matrix` [rows, columns]: float64 [rows].
at::Tensor row_sums_of_squares(const at::Tensor& matrix);

/// The same as reproducible_sum() of `count` columns, of which `matrix` has a part. `largest`
/// [rows] is the largest square of each whole row.
at::Tensor row_sums_of_squares(const at::Tensor& matrix, const at::Tensor& largest, int64_t count);

/// The largest square of each row: float64 [rows]; 0 without columns.
at::Tensor largest_row_squares(const at::Tensor& matrix);

/// The largest square of each column of `matrices` [count, rows, columns]: float64 [count, 1,
/// columns]; 0 without rows.
at::Tensor largest_column_squares(const at::Tensor& matrices);

/// The sum of squares of each column, as reproducible_sum() of `count` rows, of which `matrices`
/// has a part: float64 [count, 1, columns].
at::Tensor column_sums_of_squares(const at::Tensor& matrices, const at::Tensor& largest,
                                  int64_t count);

/// Axes of the mesh over which the addends of a sum are divided; empty: this rank has all.
using SumAxes = std::vector<Axis>;

/// Reproducible sums of which ranks have addends each: two collectives for all over the same axes.
class SharedSums {
 public:
  /// This rank's part of a sum, given the largest addend of all ranks.
  using Sum = std::function<at::Tensor(const at::Tensor& largest)>;

  /// `largest` of this rank's addends, float64. Returns the index of the sum, which has its shape.
  size_t add(const SumAxes& over, const at::Tensor& largest, Sum sum);
  /// The sum of a float64 vector, 0-d; all ranks together have `count` numbers.
  size_t add_vector(const SumAxes& over, const at::Tensor& addends, int64_t count);
  /// A sum that this rank has.
  size_t add_known(const at::Tensor& sum);
  /// Computes all sums. `exchange` may be null where this rank has all addends. Ranks along an axis
  /// add the same sums over it.
  void run(const ShardExchange* exchange);
  const at::Tensor& operator[](size_t index) const { return results_[index]; }

 private:
  struct Addends {
    size_t index;  ///< in results_
    at::Tensor largest;
    Sum sum;
  };
  std::map<SumAxes, std::vector<Addends>> left_;  ///< in one order on all ranks
  std::vector<at::Tensor> results_;
};

}  // namespace accel
