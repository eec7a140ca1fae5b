// Where a rank's share of a tensor lies in the whole one.
#pragma once

#include <cstdint>
#include <vector>

#include "core/api/parameter.h"
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
/// rank before, or with two divided axes any.
bool repeats_empty_share(const Parameter& parameter, const Mesh& mesh);

}  // namespace accel
