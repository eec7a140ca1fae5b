// Sequences that a language model continues together, each in a row of one key-value cache.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/api/model.h"
#include "models/layers/decoding.h"
#include "train/job/staged_forward.h"

namespace accel {

struct SequenceBatchOptions {
  int64_t rows = 1;             ///< largest number of sequences
  int64_t capacity = 0;         ///< tokens per row that the cache is allocated for; 0: as needed
  int64_t prefill_chunk = 512;  ///< tokens of prompts per forward pass
  std::optional<CacheDtype> cache_dtype = {};  ///< of keys and values; none: as computed
  int64_t window = 0;         ///< context length of a model that declares none; 0: unlimited
  StagedForward staged = {};  ///< of a model in pipeline stages; null: the whole model is here
};

/// Without a cache, in pipeline stages and with rotary frequencies that depend on the length,
/// forward passes are per sequence, with the same results up to rounding.
///
/// A sequence longer than the context is truncated at the start; one that outgrows the context
/// continues from its second half. The model outlives this.
class SequenceBatch {
 public:
  SequenceBatch(LanguageModel& model, SequenceBatchOptions options);

  /// Adds a sequence of one token or more as the last row. Returns the logits of its next token,
  /// float32 [vocab].
  at::Tensor add(std::vector<int64_t> tokens);
  /// add() of each; returns the logits [sequences, vocab]. They share forward passes, padded at the
  /// end, where that at most doubles their tokens: a pass reads the weights once.
  at::Tensor add_all(std::vector<std::vector<int64_t>> sequences);
  /// Adds `count` copies of the last row, whose logits are those of add().
  void add_copies(size_t count);
  /// Adds a token to each sequence. Returns the logits of the next ones, float32 [size, vocab].
  at::Tensor next(std::span<const int64_t> tokens);
  /// Removes a row; the last one takes its place.
  void remove(size_t row);
  /// Reorders rows, as index_select: the new row i is a copy of the former row sources[i]. Any
  /// number of rows up to the largest.
  void gather(std::span<const int64_t> sources);
  size_t size() const { return sequences_.size(); }
  /// Allocated for keys and values, all rows together.
  int64_t cache_bytes() const;

 private:
  struct Sequence {
    std::vector<int64_t> tokens;  ///< visible ones
    size_t cached = 0;
    std::vector<KeyValueCache> caches = {};  ///< of separate passes: per stage on this rank
  };

  /// Of the tokens that are not cached.
  at::Tensor row_logits(size_t row);
  /// The number of sequences from row `first` on that share a forward pass.
  size_t count_together(size_t first) const;
  /// row_logits() of rows without cached tokens, [count, vocab].
  at::Tensor rows_logits(size_t first, size_t count);
  at::Tensor separate_pass(Sequence& sequence);
  at::Tensor batch_pass(std::span<const int64_t> tokens);
  /// [batch, vocab] of hidden states [batch, tokens, width].
  at::Tensor logits_of(const at::Tensor& hidden);
  at::Tensor input_of(std::span<const int64_t> tokens) const;

  LanguageModel& model_;
  SequenceBatchOptions options_;
  CachedDecoder* decoder_;  // null: a model without KV cache
  bool shares_cache_;
  int64_t window_;
  KeyValueCache cache_;
  at::Device device_;  // of the model's inputs
  std::vector<Sequence> sequences_;
};

}  // namespace accel
