// Collective operations of a run's processes, under Accelerate's names.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

namespace accel {

/// Reduction of values over ranks.
enum class Reduce { kSum, kMean, kMax };

/// Padding of tensors to equal sizes.
struct RankPadding {
  int64_t dim = 0;
  double value = 0;
  bool first = false;  ///< pad at the front, not at the end
};

/// All ranks call the same methods in the same order; rank(), world() and is_main() are local. A
/// single process is a group of one. Throws Error: kRank when another rank has ended, kTimeout when
/// one does not join in time.
class Ranks {
 public:
  virtual ~Ranks() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t world() const = 0;
  /// The tensors of all ranks concatenated along dimension 0; 0-d tensors become 1-d. All have one
  /// shape and type: see pad_across_processes().
  virtual at::Tensor gather(const at::Tensor& tensor) = 0;
  /// Element-wise, the same bits on all ranks. The argument is not changed.
  virtual at::Tensor reduce(const at::Tensor& tensor, Reduce how) = 0;
  /// Pads the tensor to the largest size of all ranks along `padding.dim`.
  virtual at::Tensor pad_across_processes(const at::Tensor& tensor, const RankPadding& padding) = 0;
  /// The value of rank 0, on all ranks.
  virtual at::Tensor broadcast(const at::Tensor& tensor) = 0;
  /// Logical or over ranks, as Accelerate's set_trigger() and check_trigger().
  virtual bool any(bool here) = 0;
  /// Barrier.
  virtual void wait_for_everyone() = 0;

  bool is_main() const { return rank() == 0; }

  /// Calls `work` on rank 0 and then on the others. If it throws on rank 0, the others end by their
  /// timeout.
  void main_process_first(const std::function<void()>& work) {
    if (!is_main()) wait_for_everyone();
    work();
    if (is_main()) wait_for_everyone();
  }
};

}  // namespace accel
