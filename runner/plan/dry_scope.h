// Tensors without contents: what a computation would take and do, found without doing it.
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "kernels/kernels.h"
#include "runner/job/block_heap.h"
#include "runner/job/tensor_memory.h"

namespace accel {

/// What operators did in a DryScope.
class WorkMeter {
 public:
  /// Bytes that the scope's tensors hold now, memory that several share once, and the most so far.
  int64_t live_bytes() const { return live_; }
  int64_t peak_bytes() const { return peak_; }
  /// The most that the process has of the system's for them: blocks leave holes when they go.
  int64_t peak_resident() const { return small_.extent() + large_.extent(); }

  /// Floating-point operations of matrix products, convolutions and attention, a multiplication
  /// and an addition counting as two; what else there is hardly adds to them.
  double flops() const { return flops_; }
  void add_flops(double flops) { flops_ += flops; }

  /// What products of matrices keep for their copies of them.
  int64_t packing_bytes() const;
  /// [m, k] times [k, n], of numbers of `bytes` bytes, is computed.
  void multiply(int64_t m, int64_t k, int64_t n, int64_t bytes);

  BlockHeap::Block take(int64_t bytes);
  void give_back(BlockHeap::Block block, int64_t bytes);

 private:
  BlockHeap& heap_of(int64_t bytes) { return bytes < kLeastTensorBlock ? small_ : large_; }

  BlockHeap small_, large_;  // as keep_freed_memory() makes them
  std::vector<int64_t> packing_;
  int64_t live_ = 0;
  int64_t peak_ = 0;
  double flops_ = 0;
};

/// While it lives, this thread's operators on CPU tensors compute nothing. They give tensors of the
/// shapes, types and sharing of memory that they would give, and autograd and autocast work as
/// ever. The contents are zeros that take no memory until something writes to them past the
/// operators; whatever asks for one number gets 1. The tensors may outlive the scope. What seeds
/// the generator there leaves it as it was.
class DryScope {
 public:
  explicit DryScope(std::shared_ptr<WorkMeter> meter);
  ~DryScope();
  DryScope(const DryScope&) = delete;
  DryScope& operator=(const DryScope&) = delete;

  /// Of the innermost scope of this thread; null outside.
  static const std::shared_ptr<WorkMeter>& meter();

 private:
  at::Tensor generator_;  // as it was: what is built in the scope may seed it
  std::shared_ptr<WorkMeter> outer_;
  ShapesOnly shapes_only_;
  std::optional<c10::impl::IncludeDispatchKeyGuard> guard_;
};

/// While it lives, operators in a DryScope of this thread throw Error once `seconds` have passed.
class DryTimeLimit {
 public:
  explicit DryTimeLimit(double seconds);
  ~DryTimeLimit();
  DryTimeLimit(const DryTimeLimit&) = delete;
  DryTimeLimit& operator=(const DryTimeLimit&) = delete;
};

}  // namespace accel
