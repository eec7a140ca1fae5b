// Tensors of a model as a rank holds them. The only headers of core that include libtorch are this
// one and those that include it.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/array.h"

namespace accel {

/// The axes of a mesh of ranks, outermost first, and those of expert parallelism, which divide the
/// ranks of kReplicate and kShard otherwise: the experts, and the shares of an expert.
enum class Axis { kPipeline, kReplicate, kShard, kContext, kTensor, kExpert, kExpertShard };

/// A dimension of a tensor divided over the ranks of an axis, as torch.chunk divides it: equal
/// parts of ceil(size / ranks), the last one shorter, those after it empty.
struct Placement {
  Axis axis;
  int64_t dim;
  /// The dimension consists of this many equal blocks, each of which is divided; a rank's parts of
  /// them follow each other. Other than 1 for dimension 0 only.
  int64_t blocks = 1;
  /// The rank of the axis that has all of the dimension, the others nothing, as of a pipeline
  /// stage; null: all ranks have a part.
  std::optional<int64_t> owner = {};

  bool operator==(const Placement&) const = default;
};

/// A tensor of a model or of an optimizer's state and its name in checkpoints.
struct Parameter {
  std::string name;
  at::Tensor local;  ///< this rank's share: all of it where there are no placements
  /// Shape of the whole tensor; empty: that of `local`.
  Shape global = {};
  /// A later one divides the share of an earlier one. Empty: replicated.
  std::vector<Placement> placements = {};

  bool is_replicated() const { return placements.empty(); }
  /// Of the whole tensor.
  Shape shape() const { return is_replicated() ? local.sizes().vec() : global; }
  int64_t numel() const { return count_of(shape()); }
};

}  // namespace accel
