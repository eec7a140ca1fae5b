#include "parallel/share_region.h"

#include <algorithm>

#include "parallel/row_share.h"

namespace accel {

ShareRegion share_region(const Parameter& parameter, const Mesh& mesh) {
  const Shape whole = parameter.shape();
  ShareRegion out = {Shape(whole.size(), 0), whole};
  for (const Placement& placement : parameter.placements) {
    const Communicator& group = mesh.along(placement.axis);
    const auto dim = static_cast<size_t>(placement.dim);
    const RowShare rows = row_share(placement, out.sizes[dim], group.world(), group.rank());
    out.offsets[dim] += rows.first;
    out.sizes[dim] = rows.count;
  }
  return out;
}

Replica replica_of(const Parameter& parameter, const Mesh& mesh) {
  Replica out = {0, 1};
  for (const Axis axis : {Axis::kReplicate, Axis::kShard, Axis::kContext, Axis::kTensor}) {
    const auto divides = [&](const Placement& placement) { return placement.axis == axis; };
    if (std::ranges::any_of(parameter.placements, divides)) continue;
    const Communicator& group = mesh.along(axis);
    out.index = out.index * group.world() + group.rank();
    out.count *= group.world();
  }
  return out;
}

bool repeats_empty_share(const Parameter& parameter, const Mesh& mesh) {
  Shape sizes = parameter.shape();
  for (const Placement& placement : parameter.placements) {
    const Communicator& group = mesh.along(placement.axis);
    int64_t& size = sizes[static_cast<size_t>(placement.dim)];
    const int64_t rank = group.rank(), ranks = group.world();
    if (placement.owner && *placement.owner != rank) return true;
    if (placement.owner) continue;
    const bool before = rank > 0 && row_share(size, ranks, rank - 1).count == 0;
    size = row_share(size, ranks, rank).count;
    if (size == 0 && before) return true;
  }
  return false;
}

}  // namespace accel
