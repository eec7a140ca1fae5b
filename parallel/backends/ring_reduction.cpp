#include "parallel/backends/ring_reduction.h"

#include <ATen/ops/add.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace accel {
namespace {

/// Of a segment of the ring, in bytes, at most.
constexpr int64_t kSegment = int64_t{1} << 20;

int64_t multiple_above(int64_t value, int64_t step) {
  return (value + step - 1) / step * step;
}

at::Tensor& combine(at::Tensor& out, const at::Tensor& a, const at::Tensor& b,
                    c10d::ReduceOp::RedOpType op) {
  switch (op) {
    case c10d::ReduceOp::SUM:
      return at::add_out(out, a, b);
    case c10d::ReduceOp::MAX:
      return at::maximum_out(out, a, b);
    case c10d::ReduceOp::MIN:
      return at::minimum_out(out, a, b);
    default:
      throw std::logic_error("unknown reduction");
  }
}

/// Elements that are reduced at once, to stay in the cache until all ranks have them.
constexpr int64_t kChunk = int64_t{1} << 15;
/// The same in float32, in the first cache.
constexpr int64_t kBlock = 1024;

/// Of at most kBlock elements, in the order of `parts`.
void sum_block(const std::vector<float*>& parts, int64_t size) {
  float sum[kBlock];
  for (int64_t k = 0; k < size; ++k) sum[k] = parts[0][k] + parts[1][k];
  for (size_t i = 2; i < parts.size(); ++i) {
    for (int64_t k = 0; k < size; ++k) sum[k] += parts[i][k];
  }
  for (float* part : parts) std::memcpy(part, sum, static_cast<size_t>(size) * sizeof(float));
}

/// Without tensors and operators for each block.
void sum_all_in_order(const std::vector<at::Tensor>& parts, const RingOrder& order, int64_t start) {
  std::vector<float*> ordered(parts.size());
  for (int64_t next = start, end = start + parts[0].numel(); next < end;) {
    const int64_t c = next / order.chunk;
    const int64_t size = std::min({(c + 1) * order.chunk, end, next + kBlock}) - next;
    for (int64_t i = 0; i < order.world; ++i) {
      ordered[static_cast<size_t>(i)] =
          parts[order.rank(c, i)].mutable_data_ptr<float>() + (next - start);
    }
    sum_block(ordered, size);
    next += size;
  }
}

}  // namespace

RingOrder::RingOrder(const at::Tensor& whole, int64_t world) : world(world) {
  const auto all = static_cast<int64_t>(whole.nbytes());
  const int64_t segments =
      multiple_above(std::max(multiple_above(all, kSegment) / kSegment, 2 * world), world);
  const auto width = static_cast<int64_t>(whole.element_size());
  const int64_t segment = multiple_above(multiple_above(all, segments) / segments, width);
  // The order of two makes no difference.
  chunk = world > 2 ? segments / world * segment / width : whole.numel();
}

void reduce_in_order(const at::Tensor& out, const std::vector<at::Tensor>& parts,
                     c10d::ReduceOp::RedOpType op, const RingOrder& order, int64_t start) {
  if (order.world == 1) {
    out.copy_(parts[0]);
    return;
  }
  for (int64_t next = start, end = start + out.numel(); next < end;) {
    const int64_t c = next / order.chunk;
    const int64_t size = std::min((c + 1) * order.chunk, end) - next;
    const auto part = [&](int64_t i) {
      return parts[order.rank(c, i)].narrow(0, next - start, size);
    };
    at::Tensor sum = out.narrow(0, next - start, size);
    combine(sum, part(0), part(1), op);
    for (int64_t i = 2; i < order.world; ++i) combine(sum, sum, part(i), op);
    next += size;
  }
}

void reduce_all_in_order(const std::vector<at::Tensor>& parts, c10d::ReduceOp::RedOpType op,
                         const RingOrder& order, int64_t start) {
  if (order.world > 1 && op == c10d::ReduceOp::SUM && parts[0].scalar_type() == at::kFloat) {
    return sum_all_in_order(parts, order, start);
  }
  const int64_t all = parts[0].numel();
  const at::Tensor memory = at::empty({std::min(kChunk, all)}, parts[0].options());
  for (int64_t at = 0; at < all; at += kChunk) {
    const int64_t size = std::min(kChunk, all - at);
    std::vector<at::Tensor> chunks;
    for (const at::Tensor& part : parts) chunks.push_back(part.narrow(0, at, size));
    const at::Tensor sum = memory.narrow(0, 0, size);
    reduce_in_order(sum, chunks, op, order, start + at);
    for (const at::Tensor& chunk : chunks) {
      std::memcpy(chunk.mutable_data_ptr(), sum.const_data_ptr(), sum.nbytes());
    }
  }
}

}  // namespace accel
