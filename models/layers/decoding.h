// Key-value cache for token-by-token decoding of causal models.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/api/batch.h"
#include "core/api/model.h"
#include "models/layers/attention_scores.h"

namespace accel {

/// The rows of a cache that a forward pass extends, and the size to allocate.
struct CacheRows {
  int64_t first = 0;     ///< the pass has the rows from this one
  int64_t rows = 1;      ///< of the cache
  int64_t capacity = 0;  ///< tokens per row; a longer row reallocates
};

/// Keys and values of one layer. Each row is a sequence with its own length.
class LayerCache {
 public:
  /// Causal attention of new tokens over all tokens of their row, including themselves; adds their
  /// keys and values to the cache. All are [batch, heads, tokens, width], of consecutive rows;
  /// `query` may have more heads (grouped-query attention). Without dropout.
  at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                    const AttentionScores& scores = {});
  void select(const CacheRows& rows) { rows_ = rows; }

  /// Cached tokens of a row.
  int64_t length(int64_t row) const {
    return row < static_cast<int64_t>(lengths_.size()) ? lengths_[static_cast<size_t>(row)] : 0;
  }
  void set_length(int64_t row, int64_t length) {
    if (row < static_cast<int64_t>(lengths_.size())) lengths_[static_cast<size_t>(row)] = length;
  }
  /// Reorders rows, as index_select: the new row i is a copy of the former row sources[i].
  void gather(std::span<const int64_t> sources);
  void copy_row(int64_t from, int64_t to);

 private:
  void reserve(const at::Tensor& key, int64_t length);
  at::Tensor attend_ragged(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const AttentionScores& scores);

  at::Tensor keys_, values_;  ///< [rows, heads, capacity, width]
  std::vector<int64_t> lengths_;
  CacheRows rows_;
};

/// The caches of all layers, created by layer 0 on first use. By default of one sequence.
class KeyValueCache {
 public:
  KeyValueCache() = default;
  /// For `rows` sequences, allocated at once for `capacity` tokens each.
  KeyValueCache(int64_t rows, int64_t capacity) : rows_{0, rows, capacity} {}

  LayerCache& layer(size_t index) {
    if (index >= layers_.size()) layers_.resize(index + 1);
    layers_[index].select(rows_);
    return layers_[index];
  }
  /// The next passes have the rows from `first` on.
  void select(int64_t first) { rows_.first = first; }
  /// Tokens of a row cached by all layers; valid between forward passes.
  int64_t length(int64_t row) const { return layers_.empty() ? 0 : layers_.back().length(row); }
  /// Of the first selected row.
  int64_t length() const { return length(rows_.first); }
  /// Whether `batch` selected rows have one length.
  bool has_equal_rows(int64_t batch) const;
  /// Positions of new tokens [batch, count] in their rows: [count] if the rows have one length,
  /// else [batch, count].
  at::Tensor positions(const at::Tensor& tokens) const;

  void clear() { layers_.clear(); }
  void clear_row(int64_t row);
  /// Reorders rows, as index_select: the new row i is a copy of the former row sources[i].
  void gather(std::span<const int64_t> sources);
  void copy_row(int64_t from, int64_t to);

  /// The cached tokens, [batch, length], of models that keep them to compute all layers again.
  at::Tensor tokens;

 private:
  std::vector<LayerCache> layers_;
  CacheRows rows_;
};

/// A LanguageModel that supports a key-value cache.
class CachedDecoder {
 public:
  virtual ~CachedDecoder() = default;

  /// LanguageModel::hidden() of the cached tokens followed by `tokens`, for `tokens` only and up to
  /// rounding; extends the cache.
  virtual at::Tensor hidden_next(const at::Tensor& tokens, KeyValueCache& cache) = 0;
  /// Maximum sequence length.
  virtual int64_t longest() const = 0;
  /// Whether rows of a cache may differ in length.
  virtual bool supports_ragged_rows() const = 0;
};

/// Implemented by cached decoders of several sources, each of which has rows of the cache.
class DecodesSources {
 public:
  virtual ~DecodesSources() = default;
  /// The source of each row of the next passes; of a single one also where they have more rows.
  virtual void select_sources(std::span<const int64_t> sources) = 0;
  /// Frees what is kept of a source that no row will have again.
  virtual void forget_source(int64_t source) = 0;
};

/// Implemented by encoder-decoders whose sources may be decoded together.
class EncodesSources {
 public:
  virtual ~EncodesSources() = default;
  /// As EncoderDecoder::decoder_of(), a DecodesSources. A source is encoded, by itself, when it is
  /// first selected.
  virtual std::unique_ptr<LanguageModel> decoder_of_sources(std::vector<at::Tensor> sources) = 0;
};

}  // namespace accel
