// Cross-entropy over a vocabulary without ever holding the logits of a whole batch.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

namespace accel {

/// Hidden states, the head they meet, and what should come out.
struct VocabularyHead {
  at::Tensor hidden;   ///< [tokens, width]
  at::Tensor weight;   ///< [vocab, width]
  at::Tensor targets;  ///< [tokens] int64, kIgnoredTarget where there is no loss
};

/// The mean cross-entropy over the targets that count, 0-d F32, ready for backward(). At most
/// `chunk` tokens' logits exist at a time: the gradients of `hidden` and `weight` are made beside
/// the loss. Obeys autocast. NaN when no target counts, as PyTorch's.
at::Tensor chunked_cross_entropy(const VocabularyHead& head, int64_t chunk);

struct ScoredTokens {
  at::Tensor loss;       ///< mean over the targets that count, 0-d F32
  at::Tensor predicted;  ///< [tokens] int64, the likeliest token
};

/// As chunked_cross_entropy(), with predictions in place of gradients.
ScoredTokens score_by_chunks(const VocabularyHead& head, int64_t chunk);

}  // namespace accel
