// Memory that the ranks of one machine map of one another, and sums in it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "parallel/backends/in_progress.h"
#include "parallel/backends/ring_reduction.h"
#include "parallel/shared_memory/block_exchange.h"

namespace accel {

/// As many bytes on each rank, zeros at first, mapped by all of them. It keeps no file open.
class SharedBuffer {
 public:
  /// All ranks call it with the same arguments; it waits for them. `number`: of two blocks for all.
  /// Throws as BlockExchange::await() and SharedSegment do.
  SharedBuffer(BlockExchange& exchange, uint64_t number, size_t bytes);

  std::byte* data(int64_t rank) const { return data_[static_cast<size_t>(rank)]; }
  /// Whether `bytes` lie in the memory of this rank.
  bool contains(std::span<const std::byte> bytes) const;

 private:
  int64_t rank_;
  size_t bytes_;
  std::vector<std::unique_ptr<SharedSegment>> segments_;  ///< by rank
  std::vector<std::byte*> data_;
};

/// The all-reduce of a tensor at the same offset of a buffer on all ranks: each rank
/// reduces a part of it and writes the result to all of them. The memory of each rank is read and
/// written once, by `world` ranks together, where copies would be read and written by each.
class ReduceInPlace final : public InProgress {
 public:
  /// `number`: of two blocks for all; those say that a tensor is complete, and a part reduced.
  ReduceInPlace(std::shared_ptr<BlockExchange> exchange, std::shared_ptr<SharedBuffer> buffer,
                const at::Tensor& tensor, c10d::ReduceOp::RedOpType op, uint64_t number);

 protected:
  bool is_ready() const override { return all_have(reduced_ ? number_ + 1 : number_); }
  bool is_last_phase() const override { return reduced_; }
  bool advance() override;

 private:
  void check_offsets();
  void reduce_own_part() const;
  std::vector<at::Tensor> parts_of(int64_t at, int64_t size) const;

  std::shared_ptr<SharedBuffer> buffer_;
  at::Tensor flat_;
  RingOrder order_;
  c10d::ReduceOp::RedOpType op_;
  uint64_t number_;
  int64_t offset_;  ///< of the tensor in the buffer, in bytes
  bool reduced_ = false;
};

}  // namespace accel
