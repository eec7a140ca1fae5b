#include "parallel/backends/ring_reduction.h"

#include <ATen/ops/add.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/minimum.h>

#include <algorithm>
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

}  // namespace accel
