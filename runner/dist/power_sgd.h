// Gradients of one bucket as products of thin matrices, so that fewer bytes travel.
#pragma once

#include <cstdint>
#include <vector>

#include "core/batch.h"
#include "runner/dist/buckets.h"

namespace accel {

struct PowerSgdOptions {
  int64_t rank = 1;                 ///< columns of the matrices
  int64_t start = 1000;             ///< steps before the first that is compressed
  double min_compression_rate = 2;  ///< what shrinks less travels as it is
  uint64_t seed = 0;                ///< of the first guess, the same on all ranks
};

/// One power iteration for each step, begun where the last one ended, and what it missed is added
/// to the next gradient (Vogels et al., "PowerSGD", NeurIPS 2019), as PyTorch's powerSGD_hook. Two
/// tensors travel, one after the other; all ranks must call the three methods in turn.
class PowerSgd {
 public:
  /// `bucket` outlives this. Its gradients are parts of a sum over `world` ranks.
  PowerSgd(const Bucket& bucket, const PowerSgdOptions& options, int64_t world);

  /// What travels first, of the bucket's gradients and what was missed of those before.
  at::Tensor first();
  /// What travels next, from the sum of the first over all ranks.
  at::Tensor second(const at::Tensor& first);
  /// Puts the gradients that the two sums stand for into the bucket's buffer.
  void finish(const at::Tensor& second);

  /// "error" and "guess"; nothing before the first compressed step. Shares the tensors.
  std::vector<NamedTensor> state() const;
  /// Throws CheckpointError when the shapes do not fit.
  void load(const at::Tensor& error, const at::Tensor& guess);

 private:
  struct Matrix {
    size_t index;  ///< in the bucket
    int64_t rows, columns, rank;
  };
  at::Tensor gradient(const Matrix& matrix, const at::Tensor& flat) const;
  at::Tensor factor(const at::Tensor& all, int64_t& at, int64_t rows, int64_t columns) const;
  void guess();

  const Bucket& bucket_;
  PowerSgdOptions options_;
  double world_;
  std::vector<Matrix> matrices_;   ///< the gradients that are compressed
  std::vector<size_t> untouched_;  ///< the others
  at::Tensor error_;               ///< of this rank, in the layout of the bucket
  at::Tensor input_;               ///< of this step: gradients and error
  at::Tensor left_, right_;        ///< all P and all Q
};

}  // namespace accel
