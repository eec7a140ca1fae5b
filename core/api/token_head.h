// Heads over the vocabulary at each position that a model of text has besides its layers.
#pragma once

#include "core/api/batch.h"

namespace accel {

/// A model whose output is logits = features weight^T + bias of hidden tokens. Tasks that divide
/// the vocabulary over ranks never make whole logits.
class TokenHead {
 public:
  virtual ~TokenHead() = default;
  /// Whether this model has it; false: another head, or none.
  virtual bool has_token_head() const = 0;
  /// [batch, positions, width], the same on all ranks of tensor parallelism; gradients are parts of
  /// a sum over them: see TensorRanks::enter(). Positions are those of ContextParallel.
  virtual at::Tensor token_features(const Batch& batch) = 0;
  /// This rank's rows, [rows, width] and [rows].
  virtual at::Tensor token_weight() = 0;
  virtual at::Tensor token_bias() = 0;
};

}  // namespace accel
