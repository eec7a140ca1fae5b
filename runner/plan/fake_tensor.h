// Fake tensors: shape, type and storage size without memory, and the meter of their work.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include "core/base/error.h"
#include "kernels/memory/free_list.h"
#include "kernels/memory/tensor_heap.h"

namespace accel {

/// A tensor for which the address space of the process has no room.
class AddressSpaceError : public Error {
 public:
  explicit AddressSpaceError(size_t bytes);

  size_t bytes() const { return bytes_; }

 private:
  size_t bytes_;
};

/// Tensors that exceed a FakeMemoryLimit.
class MemoryLimitError : public Error {
 public:
  explicit MemoryLimitError(int64_t bytes);
};

/// Memory and FLOPs of the operators in a FakeTensorMode.
class WorkMeter {
 public:
  /// Current and peak bytes of the mode's storages.
  int64_t live_bytes() const { return live_; }
  int64_t peak_bytes() const { return peak_; }
  /// The peak since the last begin_peak().
  int64_t recent_peak() const { return recent_peak_; }
  void begin_peak() { recent_peak_ = live_; }
  /// Peak memory that the process holds for them, including fragmentation and packing buffers.
  int64_t peak_resident() const;

  /// Floating-point operations of matrix products, convolutions and attention; a multiply-add
  /// counts as two. Others are negligible.
  double flops() const { return flops_; }
  /// Bytes that the other operators read and write.
  double moved_bytes() const { return moved_; }
  void add_work(double flops, double moved_bytes) {
    flops_ += flops;
    moved_ += moved_bytes;
  }

  /// Packing buffers of matrix products that threads keep.
  int64_t packing_bytes() const;
  /// Records a product of [m, k] and [k, n] with elements of `bytes` bytes.
  void multiply(int64_t m, int64_t k, int64_t n, int64_t bytes);

  FreeList::Block take(int64_t bytes);
  void give_back(FreeList::Block block, int64_t bytes);

 private:
  FreeList& heap_of(int64_t bytes) { return bytes < kLeastTensorBlock ? small_ : large_; }

  FreeList small_, large_;  // as use_caching_allocator() makes them
  std::vector<std::pair<int64_t, FreeList::Block>> packing_;  // of each thread: size and block
  int64_t live_ = 0;
  int64_t peak_ = 0;
  int64_t recent_peak_ = 0;
  double flops_ = 0;
  double moved_ = 0;
};

/// The meter of this thread's innermost FakeTensorMode; null outside.
std::shared_ptr<WorkMeter>& meter_of_thread();

/// A CPU tensor of zeros whose pages take no memory until written. The mode's meter counts its
/// bytes while it lives. Only within a FakeTensorMode.
at::Tensor fake_tensor(at::IntArrayRef sizes, at::IntArrayRef strides, at::ScalarType type);

/// With the layout of `like`.
at::Tensor fake_like(const at::Tensor& like);

/// A contiguous fake tensor.
at::Tensor fake_empty(at::IntArrayRef sizes, at::ScalarType type);

}  // namespace accel
