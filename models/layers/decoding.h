// Key-value cache for token-by-token decoding of causal models.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/api/batch.h"
#include "core/api/model.h"
#include "core/recipe/codec.h"
#include "kernels/attention_scores.h"
#include "kernels/token_attention.h"

namespace accel {

/// Type of cached keys and values. Int8: with a scale per head and token.
enum class CacheDtype { kFp32, kBf16, kInt8 };

template <>
struct EnumNames<CacheDtype> {
  static constexpr std::pair<CacheDtype, const char*> kValues[] = {
      {CacheDtype::kFp32, "fp32"}, {CacheDtype::kBf16, "bf16"}, {CacheDtype::kInt8, "int8"}};
};

/// The rows of a cache that a forward pass extends, and the size to allocate.
struct CacheRows {
  int64_t first = 0;                     ///< the pass has the rows from this one
  int64_t rows = 1;                      ///< of the cache
  int64_t capacity = 0;                  ///< tokens per row; a longer row reallocates
  std::optional<CacheDtype> dtype = {};  ///< none: that of the keys
};

/// Keys or values of one layer: tokens of rows, [rows, heads, capacity, width] and each in a type
/// of its own.
class CachedStates {
 public:
  struct Range {
    int64_t first, rows;   ///< of the cache
    int64_t begin, count;  ///< tokens
  };

  /// Zeros for `room` tokens of `rows`, after the first `used` tokens of the former rows.
  void reserve(const at::Tensor& states, const CacheRows& wanted, int64_t room, int64_t used);
  /// States [rows, heads, count, width] at a range.
  void write(const Range& at, const at::Tensor& states);
  /// States [rows, heads, count, width] at positions [rows, count] of the rows from `first` on.
  void scatter(int64_t first, const at::Tensor& positions, const at::Tensor& states);
  /// [rows, heads, count, width] as `type`; a view of the cache where it has the type.
  at::Tensor read(const Range& range, at::ScalarType type) const;
  /// The tokens of some rows, as they are stored.
  CachedTokens stored(int64_t first, int64_t rows) const;
  /// The first tokens of the new row i are those of the former row index[i].
  void gather(const at::Tensor& index, int64_t used);
  void copy_row(int64_t from, int64_t to, int64_t used);

  bool is_empty() const { return !states_.defined(); }
  int64_t rows() const { return is_empty() ? 0 : states_.size(0); }
  int64_t room() const { return is_empty() ? 0 : states_.size(2); }
  at::Device device() const { return states_.device(); }
  int64_t bytes() const;

 private:
  std::vector<at::Tensor> parts() const;

  at::Tensor states_;
  at::Tensor scales_;  ///< of int8: F32 [rows, heads, capacity, 1]; else undefined
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
  int64_t bytes() const { return keys_.bytes() + values_.bytes(); }

 private:
  void reserve(const at::Tensor& key, int64_t length);
  /// Of one new token of each row.
  at::Tensor attend_token(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                          const AttentionScores& scores);
  at::Tensor attend_ragged(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                           const AttentionScores& scores);

  CachedStates keys_, values_;
  std::vector<int64_t> lengths_;
  CacheRows rows_;
};

/// The caches of all layers, created by layer 0 on first use. By default of one sequence.
class KeyValueCache {
 public:
  KeyValueCache() = default;
  /// For `rows` sequences, allocated at once for `capacity` tokens each. `dtype` none: that of the
  /// keys.
  KeyValueCache(int64_t rows, int64_t capacity, std::optional<CacheDtype> dtype = {})
      : rows_{0, rows, capacity, dtype} {}

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
  /// Allocated, of all layers.
  int64_t bytes() const;
  /// Forgets the tokens of a row after the first `length`; nothing for a row that was never filled.
  void set_length(int64_t row, int64_t length);
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
