// Sums over ranks in the order of Gloo's ring.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <torch/csrc/distributed/c10d/Types.hpp>

namespace accel {

/// The order of Gloo's sums, that of a ring: a run has the same bits with either backend, on one
/// machine and on several.
struct RingOrder {
  int64_t world;
  int64_t chunk;  ///< elements that are added in the same order

  RingOrder(const at::Tensor& whole, int64_t world);

  /// The i-th rank whose tensor is added to chunk `c`.
  size_t rank(int64_t c, int64_t i) const {
    return static_cast<size_t>((c - 1 - i + 2 * world) % world);
  }
};

/// Reduces `parts`, by rank: the elements from `start` of tensors that are reduced in `order`.
void reduce_in_order(const at::Tensor& out, const std::vector<at::Tensor>& parts,
                     c10d::ReduceOp::RedOpType op, const RingOrder& order, int64_t start);

/// Replaces each of `parts`, contiguous 1-d tensors of one size, by what reduce_in_order() makes of
/// them.
void reduce_all_in_order(const std::vector<at::Tensor>& parts, c10d::ReduceOp::RedOpType op,
                         const RingOrder& order, int64_t start);

}  // namespace accel
