// What the processes of a run do together, under the names that Accelerate gives it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <string>

namespace accel {

/// How values of several ranks become one.
enum class Reduce { kSum, kMean, kMax };

/// How tensors of unequal size become equal ones.
struct RankPadding {
  int64_t dim = 0;
  double value = 0;
  bool first = false;  ///< fill in front, not behind
};

/// All ranks call the same methods in the same order; rank(), world() and is_main() are free. A
/// process that is alone is the group of one. Throws Error: kRank when another rank is gone,
/// kTimeout when one has not come in time.
class Ranks {
 public:
  virtual ~Ranks() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t world() const = 0;
  /// The tensors of all ranks one after another along dimension 0; 0-d ones become 1-d. All have
  /// one shape and type: see pad_across_processes().
  virtual at::Tensor gather(const at::Tensor& tensor) = 0;
  /// Element-wise, the same bits on all ranks. The argument is left as it was.
  virtual at::Tensor reduce(const at::Tensor& tensor, Reduce how) = 0;
  /// Brings the tensor to the longest size along `padding.dim` that a rank has.
  virtual at::Tensor pad_across_processes(const at::Tensor& tensor, const RankPadding& padding) = 0;
  /// That of rank 0, on all ranks.
  virtual at::Tensor broadcast(const at::Tensor& tensor) = 0;
  /// True on all ranks when it is on one: what Accelerate's set_trigger() and check_trigger() do.
  virtual bool any(bool here) = 0;
  /// Returns when every rank has called it.
  virtual void wait_for_everyone() = 0;

  bool is_main() const { return rank() == 0; }

  /// Calls `work` on rank 0, and on the others when it has returned there. If it throws, the others
  /// find out by their timeout.
  void main_process_first(const std::function<void()>& work) {
    if (!is_main()) wait_for_everyone();
    work();
    if (is_main()) wait_for_everyone();
  }
};

}  // namespace accel
