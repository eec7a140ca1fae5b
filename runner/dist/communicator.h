// What ranks do together: the few collectives that training needs.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace accel {

enum class ReduceOp { kSum, kMax, kMin };

/// A collective that is under way.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Returns when it is done. To be called once. Throws as the collective does.
  virtual void wait() = 0;
};

/// A group of ranks. Every rank calls the same collectives in the same order, with tensors of one
/// type and shape, contiguous and on the CPU; `what` names the purpose in error messages and must
/// outlive the call. One thread of each rank uses it. Collectives throw Error: kRank when another
/// rank is gone, kTimeout when one has not come in time.
class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t world() const = 0;

  /// Replaces `tensor` by the sum, maximum or minimum over all ranks, the same bits on each. It
  /// must not be touched before the result's wait() returns.
  virtual std::unique_ptr<Pending> start_all_reduce(at::Tensor tensor, ReduceOp op,
                                                    const char* what) = 0;
  /// Replaces `tensor` by that of rank `root`.
  virtual void broadcast(at::Tensor tensor, int64_t root, const char* what) = 0;
  /// The tensors of all ranks, [world, ...], by rank.
  virtual at::Tensor all_gather(const at::Tensor& tensor, const char* what) = 0;
  /// Returns when every rank has called it.
  virtual void barrier(const char* what) = 0;

  void all_reduce(const at::Tensor& tensor, ReduceOp op, const char* what) {
    start_all_reduce(tensor, op, what)->wait();
  }
  bool is_main() const { return rank() == 0; }
};

/// The group of a process that is alone.
class SingleProcess final : public Communicator {
 public:
  int64_t rank() const override { return 0; }
  int64_t world() const override { return 1; }
  std::unique_ptr<Pending> start_all_reduce(at::Tensor tensor, ReduceOp op,
                                            const char* what) override;
  void broadcast(at::Tensor, int64_t, const char*) override {}
  at::Tensor all_gather(const at::Tensor& tensor, const char* what) override;
  void barrier(const char*) override {}
};

}  // namespace accel
