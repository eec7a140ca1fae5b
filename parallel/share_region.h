// Where a rank's share of a tensor lies in the whole one.
#pragma once

#include <cstdint>

#include "core/api/parameter.h"
#include "parallel/mesh.h"

namespace accel {

struct ShareRegion {
  Shape offsets;  ///< in the whole tensor
  Shape sizes;
};

/// This rank's share of the parameter; all of it where it is replicated.
ShareRegion share_region(const Parameter& parameter, const Mesh& mesh);

/// The number of ranks that hold the share of this one, and this rank among them.
struct Replica {
  int64_t index;
  int64_t count;
};

Replica replica_of(const Parameter& parameter, const Mesh& mesh);

/// Whether the share is empty and so is that of the rank before, their regions being equal, or
/// another rank has all of the tensor.
bool repeats_empty_share(const Parameter& parameter, const Mesh& mesh);

}  // namespace accel
