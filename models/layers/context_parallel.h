// What layers do under context parallelism; in one process they have whole sequences.
#pragma once

#include <memory>

#include "core/api/context_parallel.h"

namespace accel {

/// Null: one process.
using ContextRanksPtr = std::shared_ptr<const ContextRanks>;

/// The keys that the tokens of a pass attend to.
struct VisibleKeys {
  /// Bool, true for visible keys of a whole sequence; undefined: causal.
  at::Tensor mask = {};
  /// The ranks that divide the sequence; null: none do.
  ContextRanksPtr ranks = nullptr;
  /// ContextAttention::starts.
  at::Tensor starts = {};
};

/// Attention of [batch, heads, positions, width]; keys and values may have fewer heads. `dropout`
/// of attention weights.
at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                  const VisibleKeys& visible, double dropout);

/// The model's ranks where a pass divides sequences: see ContextParallel.
ContextRanksPtr dividing(const ContextRanksPtr& ranks);

/// The positions of this rank along dimension `dim`, padded at the end with `value`; `x` where no
/// rank divides.
at::Tensor own_positions(const ContextRanks* ranks, const at::Tensor& x, int64_t dim,
                         int64_t value);

/// VisibleKeys of a sequence of texts, int64 [batch, length], whose first positions these are.
VisibleKeys visible_in_texts(const ContextRanksPtr& ranks, const at::Tensor& starts);

/// Checks a model's heads and the dropout of its attention weights.
void check_divides_sequences(const ContextRanks& ranks, int64_t heads, int64_t kv_heads,
                             double attention_dropout);

}  // namespace accel
