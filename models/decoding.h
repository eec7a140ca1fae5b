// Decoding token by token: what a causal model keeps of the tokens it has seen.
#pragma once

#include <cstdint>
#include <vector>

#include "core/batch.h"

namespace accel {

/// Keys and values of one layer.
class LayerCache {
 public:
  /// Causal attention of new tokens over all so far, themselves included; takes their keys and
  /// values in. All are [batch, heads, tokens, width]; heads of `query` may share those of the
  /// others. Without dropout.
  at::Tensor attend(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value);
  /// Tokens so far.
  int64_t length() const { return length_; }

 private:
  void reserve(const at::Tensor& key, int64_t length);

  at::Tensor keys_, values_;  ///< with room for more tokens than there are
  int64_t length_ = 0;
};

/// Those of all layers, the first one's made at its first use.
class KeyValueCache {
 public:
  LayerCache& layer(size_t index) {
    if (index >= layers_.size()) layers_.resize(index + 1);
    return layers_[index];
  }
  /// Tokens that went through all layers; between passes only.
  int64_t length() const { return layers_.empty() ? 0 : layers_.back().length(); }

 private:
  std::vector<LayerCache> layers_;
};

/// A LanguageModel that need not see again what it has seen.
class CachedDecoder {
 public:
  virtual ~CachedDecoder() = default;

  /// LanguageModel::hidden() of the tokens that went into `cache` and these, for these alone, up to
  /// rounding; takes these in.
  virtual at::Tensor hidden_next(const at::Tensor& tokens, KeyValueCache& cache) = 0;
  /// The most tokens that it can see at once.
  virtual int64_t longest() const = 0;
};

}  // namespace accel
