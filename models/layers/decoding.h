// Key-value cache for token-by-token decoding of causal models.
#pragma once

#include <cstdint>
#include <vector>

#include "core/api/batch.h"

namespace accel {

/// Keys and values of one layer.
class LayerCache {
 public:
  /// Causal attention of new tokens over all tokens, including themselves; adds their keys and
  /// values to the cache. All are [batch, heads, tokens, width]; `query` may have more heads
  /// (grouped-query attention). Without dropout.
  at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value);
  /// Cached tokens.
  int64_t length() const { return length_; }

 private:
  void reserve(const at::Tensor& key, int64_t length);

  at::Tensor keys_, values_;  ///< with capacity for further tokens
  int64_t length_ = 0;
};

/// The caches of all layers, created by layer 0 on first use.
class KeyValueCache {
 public:
  LayerCache& layer(size_t index) {
    if (index >= layers_.size()) layers_.resize(index + 1);
    return layers_[index];
  }
  /// Tokens cached by all layers; valid between forward passes.
  int64_t length() const { return layers_.empty() ? 0 : layers_.back().length(); }

 private:
  std::vector<LayerCache> layers_;
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
};

}  // namespace accel
