// Where a rank's share of a tensor lies in the whole one, and the exchange of shares for
// optimizers.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "core/api/optimizer.h"
#include "parallel/mesh.h"

namespace accel {

struct ShareRegion {
  Shape offsets;  ///< in the whole tensor
  Shape sizes;
};

/// The regions of this rank's share of the parameter, as its rows follow each other in `local`: one
/// unless a placement has blocks; all of the tensor where it is replicated.
std::vector<ShareRegion> share_regions(const Parameter& parameter, const Mesh& mesh);

/// The number of ranks that hold the share of this one, and this rank among them.
struct Replica {
  int64_t index;
  int64_t count;
};

Replica replica_of(const Parameter& parameter, const Mesh& mesh);

/// Whether the share is empty and another rank's region begins at the same offsets: that of the
/// rank before, of the owner, or with two divided axes any.
bool repeats_empty_share(const Parameter& parameter, const Mesh& mesh);

/// Placements of a tensor with the shape `whole` in the optimizer's state for a parameter: those of
/// the parameter along the dimensions in which both have the same size, and those with an owner;
/// none where they differ in the number of dimensions.
inline std::vector<Placement> state_placements(const Shape& whole, const Parameter& parameter) {
  const Shape shape = parameter.shape();
  std::vector<Placement> out;
  if (whole.size() != shape.size()) return out;
  for (const Placement& placement : parameter.placements) {
    const auto dim = static_cast<size_t>(placement.dim);
    if (placement.owner || whole[dim] == shape[dim]) out.push_back(placement);
  }
  return out;
}

/// Along the axes of a parameter's placements.
std::shared_ptr<const ShardExchange> make_shard_exchange(const Mesh& mesh);

}  // namespace accel
