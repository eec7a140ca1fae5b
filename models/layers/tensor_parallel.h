// What layers do under tensor parallelism; without ranks, what they do in one process.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "core/api/tensor_parallel.h"

namespace accel {

/// Null: one process.
using TensorRanksPtr = std::shared_ptr<const TensorRanks>;

/// TensorRanks::enter() of the input of matrix products, cast to their type under autocast before
/// it is sent, as its gradients are: half of float32's bytes.
at::Tensor enter(const TensorRanksPtr& ranks, const at::Tensor& x);

/// [batch, length] or [length] padded at the end to TensorRanks::padded_length().
at::Tensor padded_sequence(const TensorRanksPtr& ranks, const at::Tensor& x, int64_t value);

/// The first `length` positions of [batch, padded length, ...].
inline at::Tensor unpadded(const at::Tensor& x, int64_t length) {
  return x.size(1) == length ? x : x.narrow(1, 0, length);
}

/// TensorRanks::own_part().
at::Tensor own_part(const TensorRanksPtr& ranks, const at::Tensor& x, int64_t dim);

/// Of heads [batch, length, count x width] which all ranks have, fewer than there are ranks, the
/// one of this rank's queries; otherwise `x`, whose heads the ranks divide.
at::Tensor own_head(const TensorRanksPtr& ranks, const at::Tensor& x, int64_t count, int64_t width);

struct HeadSizes {
  int64_t count;  ///< over all ranks
  int64_t width;
};

/// Of all heads, count x width along `dim`, those of this rank: with fewer heads than ranks the one
/// of its queries.
at::Tensor own_heads(const TensorRanks& ranks, const at::Tensor& x, int64_t dim,
                     const HeadSizes& heads);

/// A random stream of this rank for what divides its activations, if `needed`.
std::unique_ptr<RandomScope> own_random_stream(const TensorRanksPtr& ranks, at::Device device,
                                               bool needed);

/// Dropout of activations that are divided over the ranks, with probability `p`.
at::Tensor own_dropout(const TensorRanksPtr& ranks, const at::Tensor& x, double p);

/// Dropout of activations between the layers, which sequence parallelism divides.
at::Tensor residual_dropout(const TensorRanksPtr& ranks, const at::Tensor& x, double p);

/// tokens [batch, length] to [batch, length, width], rows of `table`, of which this rank has those
/// of the vocabulary (TensorStyle::kEmbeddingRowwise): this rank's part of the sequence. `tied`:
/// the table is also the output head, see tied_embedding(). The row of the token `padding` gets no
/// gradient from tokens; null: none.
at::Tensor vocabulary_embedding(const DividedVocabulary& vocabulary, const at::Tensor& table,
                                const at::Tensor& tokens, bool tied,
                                std::optional<int64_t> padding = {});

/// The logits of all ranks, [..., vocab], from what LanguageModel::hidden() returns and this rank's
/// rows of the head.
at::Tensor vocabulary_logits(const DividedVocabulary& vocabulary, const at::Tensor& hidden,
                             const at::Tensor& head);

/// Throws Error (kRecipe) unless `ranks` divides `size`, the option `name`.
void check_divides(const char* name, int64_t size, int64_t ranks);

}  // namespace accel
