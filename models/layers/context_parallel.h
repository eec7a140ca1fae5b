// What layers do under context parallelism; in one process they have whole sequences.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

#include "core/api/context_parallel.h"
#include "kernels/attention_scores.h"

namespace accel {

/// Null: one process.
using ContextRanksPtr = std::shared_ptr<const ContextRanks>;

/// The keys that the tokens of a pass attend to.
struct VisibleKeys {
  /// Bool, true for visible keys of a whole sequence; undefined: causal.
  at::Tensor mask = {};
  /// The ranks that divide the sequence; null: none do.
  ContextRanksPtr ranks = nullptr;
  /// See ContextAttention; with a window, the first position that each token sees, int64 [batch or
  /// 1, padded length].
  at::Tensor starts = {};
  bool is_causal = true;
  at::Tensor visible = {};
};

/// Of full attention, where texts have these lengths, int64 [batch]; undefined: all have `length`,
/// of which `places` is an integer tensor on the device. `ranks`: as of dividing().
VisibleKeys visible_in_lengths(const ContextRanksPtr& ranks, const at::Tensor& lengths,
                               int64_t length, const at::TensorOptions& places);

/// The keys of causal attention that a window of the last `window` tokens leaves, of `visible`
/// with ranks; `places` is an integer tensor on the device.
VisibleKeys visible_in_window(const VisibleKeys& visible, int64_t length, int64_t window,
                              const at::TensorOptions& places);

/// Attention of [batch, heads, positions, width]; keys and values may have fewer heads. `visible`
/// has the window of `scores`. Ranks that divide sequences do not support a bias.
at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const VisibleKeys& visible, const AttentionScores& scores);

/// The model's ranks where a pass divides sequences: see ContextParallel.
ContextRanksPtr dividing(const ContextRanksPtr& ranks);

/// The positions of this rank along dimension `dim`, padded at the end with `value`; `x` where no
/// rank divides.
at::Tensor own_positions(const ContextRanks* ranks, const at::Tensor& x, int64_t dim,
                         int64_t value);

/// VisibleKeys of a sequence of texts, int64 [batch, length], whose first positions these are.
VisibleKeys visible_in_texts(const ContextRanksPtr& ranks, const at::Tensor& starts);

/// A stream of this rank for the dropout of its positions; null where no rank divides.
std::unique_ptr<RandomScope> own_random_stream(const ContextRanksPtr& ranks, at::Device device);

/// Checks a model's heads, and dropout and softcap of its `scores`.
void check_divides_sequences(const ContextRanks& ranks, int64_t heads, int64_t kv_heads,
                             const AttentionScores& scores);

}  // namespace accel
