// PowerSGD: low-rank compression of a bucket's gradients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/api/batch.h"
#include "parallel/buckets.h"

namespace accel {

struct PowerSgdOptions {
  int64_t rank = 1;                 ///< of the approximation
  int64_t start = 1000;             ///< steps without compression at the start
  double min_compression_rate = 2;  ///< gradients with a smaller ratio are not compressed
  uint64_t seed = 0;                ///< of the bucket's initial Q, the same on all ranks
};

/// Seeds of the initial Q of each bucket: those that PyTorch's PowerSGDState draws from NumPy's
/// RandomState(`seed`).
std::vector<uint64_t> power_sgd_seeds(uint64_t seed, size_t buckets);

/// One power iteration per step from the last Q, with error feedback (Vogels et al., "PowerSGD",
/// NeurIPS 2019), as PyTorch's powerSGD_hook. Two all-reduces per step; all ranks call the three
/// methods in order.
class PowerSgd {
 public:
  /// `bucket` outlives this. Its gradients are summed over `world` ranks.
  PowerSgd(const Bucket& bucket, const PowerSgdOptions& options, int64_t world);

  /// The first buffer to all-reduce, from the bucket's gradients and the error feedback.
  at::Tensor first();
  /// The second buffer to all-reduce, from the first one's sum.
  at::Tensor second(const at::Tensor& first);
  /// Decompresses the gradients of the two sums into the bucket.
  void finish(const at::Tensor& second);

  /// "error" and "guess" (Q); empty before the first compressed step. Shares the tensors.
  std::vector<Parameter> state() const;
  /// Throws CheckpointError when the shapes do not fit.
  void load(const at::Tensor& error, const at::Tensor& guess);

 private:
  struct Matrix {
    size_t index;  ///< in the bucket
    int64_t rows, columns, rank;
  };
  at::Tensor gradient(const Matrix& matrix, const at::Tensor& flat) const;
  at::Tensor factor(const at::Tensor& all, int64_t& at, int64_t rows, int64_t columns) const;
  std::vector<size_t> draw_order() const;
  void guess();

  const Bucket& bucket_;
  PowerSgdOptions options_;
  double world_;
  std::vector<Matrix> matrices_;   ///< the gradients that are compressed
  std::vector<size_t> untouched_;  ///< the others
  at::Tensor error_;               ///< error feedback of this rank, in the bucket's layout
  at::Tensor input_;               ///< gradients plus error of this step
  at::Tensor left_, right_;        ///< all P and all Q
};

}  // namespace accel
