// Cross-entropy over a vocabulary with its gradients, by the kernels of a GPU.
#pragma once

#include <optional>

#include "core/api/batch.h"

namespace accel {

/// Products of `hidden` [tokens, width] with `weight` [classes, width] and `bias` [classes] or
/// undefined, all of one type, and `targets` [tokens] int64.
struct VocabularyLossCall {
  const at::Tensor &hidden, &weight, &bias, &targets;
  int64_t ignored;
  int64_t chunk;  ///< tokens whose logits are in memory at a time
  bool needs_weight_gradient;
};

/// The mean loss over the targets that are not ignored, 0-d float32, and its gradients:
/// `by_hidden` of the type of `hidden`, `by_weight` and `by_bias` float32 where they are needed.
/// All are 0 when all targets are ignored.
struct VocabularyLoss {
  at::Tensor mean, by_hidden, by_weight, by_bias;
};

/// Whether the kernels of a device compute it.
bool has_cuda_vocabulary_loss(at::Device device);

/// None where no kernel supports the tensors. The products have the type of `hidden`; the loss and
/// the gradients of logits are computed in float32, and the latter rounded to that type, in one
/// pass over the logits. Rows of logits are padded to a multiple of 64 elements where they are not
/// aligned, since tensor cores need rows that begin at 16 bytes. Does not wait for the GPU.
/// Autocast must be off. Reference: chunked_cross_entropy().
std::optional<VocabularyLoss> cuda_vocabulary_loss(const VocabularyLossCall& call);

}  // namespace accel
