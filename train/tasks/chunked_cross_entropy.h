// Chunked cross-entropy over a vocabulary, without the logits of a whole batch in memory.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>

#include "core/api/tensor_parallel.h"

namespace accel {

/// Tokens whose F32 logits over the `rows` of an output weight fit in 64 MiB, or in 1 GiB on a GPU,
/// which needs larger products; at least one.
int64_t tokens_per_chunk(int64_t rows, at::Device device);

/// Hidden states, output weight and targets.
struct VocabularyHead {
  at::Tensor hidden;   ///< [tokens, hidden_size], the same on all ranks of `vocabulary`
  at::Tensor weight;   ///< [vocab, hidden_size]; this rank's rows where ranks divide them
  at::Tensor targets;  ///< [tokens] int64, kIgnoredTarget: masked
  DividedVocabulary vocabulary = {};  ///< its size counts only with ranks
  double softcap = 0;                 ///< see SoftcappedLogits
  at::Tensor bias = {};               ///< [vocab] or this rank's part of it; undefined: none
};

/// The mean cross-entropy over unmasked targets, 0-d F32, ready for backward(). Logits of at most
/// `chunk` tokens exist at a time: the gradients of `hidden` and `weight` are computed with the
/// loss. Respects autocast. 0 when all targets are masked. With ranks, each has
/// the logits of its rows only, and the ranks exchange three numbers per token (vocabulary-parallel
/// loss, Shoeybi et al., "Megatron-LM", 2019); the gradient of `hidden` is then this rank's part of
/// a sum, which TensorRanks::enter() adds.
at::Tensor chunked_cross_entropy(const VocabularyHead& head, int64_t chunk);

struct ScoredTokens {
  at::Tensor loss;       ///< mean over unmasked targets, 0-d F32
  at::Tensor predicted;  ///< [tokens] int64, the likeliest token
};

/// The log-probability of each target, [tokens] F32; none is masked. At most `chunk` rows of logits
/// exist at a time: the backward pass computes them again. Respects autocast. Not for a divided
/// vocabulary.
at::Tensor chunked_log_probs(const VocabularyHead& head, int64_t chunk);

/// sample_labels() of the tokens' logits, with the random numbers `uniform` [tokens]. At most
/// `chunk` rows of logits exist at a time. Not for a divided vocabulary.
at::Tensor sample_labels_by_chunks(const VocabularyHead& head, const at::Tensor& uniform,
                                   int64_t chunk);

/// Like chunked_cross_entropy(), with predictions instead of gradients.
ScoredTokens score_by_chunks(const VocabularyHead& head, int64_t chunk);

}  // namespace accel
