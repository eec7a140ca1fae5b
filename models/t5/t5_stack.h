// Encoder and decoder of T5 (Raffel et al. 2020, arXiv:1910.10683): transformers with norms before
// attention and MLP, and learned biases of relative positions in place of position embeddings.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/embedding.h>

#include <memory>
#include <vector>

#include "core/api/block.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/decoding.h"
#include "models/layers/tensor_parallel.h"
#include "models/t5/t5_options.h"

namespace accel {

/// Keys and values of a source in one layer, [batch, heads, source length, width].
struct SourceKeys {
  at::Tensor key, value;
};

/// What all blocks of a forward pass read.
struct T5Pass {
  /// Of self-attention, [1 or batch, heads, tokens, keys]; -inf: not visible. Of this rank's heads.
  at::Tensor bias;
  at::Tensor source = {};       ///< the encoder's output, entered; undefined in the encoder
  at::Tensor source_bias = {};  ///< of cross-attention
};

/// The caches of one block in decoding; null: none.
struct T5Cache {
  LayerCache* seen = nullptr;
  SourceKeys* source = nullptr;  ///< filled by the first pass
};

/// RMSNorm with a weight.
class T5Norm final : public torch::nn::Module {
 public:
  explicit T5Norm(const T5Options& options);
  at::Tensor forward(const at::Tensor& x);

 private:
  at::Tensor weight_;
  double epsilon_;
};

/// Attention without a scale of scores; ranks of tensor parallelism divide its heads.
class T5Attention final : public torch::nn::Module {
 public:
  T5Attention(const T5Options& options, const TensorRanksPtr& ranks);
  /// Of [batch, tokens, hidden_size] to itself and to the tokens in `seen`; null: no cache.
  at::Tensor to_itself(const at::Tensor& inputs, const at::Tensor& bias, LayerCache* seen);
  /// To the source of the pass. `known`: its keys and values, or where they go; null: no cache.
  at::Tensor to_source(const at::Tensor& x, const T5Pass& pass, SourceKeys* known);

 private:
  at::Tensor by_head(const at::Tensor& x) const;
  at::Tensor joined(const at::Tensor& heads);
  at::Tensor attended(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                      const AttentionScores& scores) const;
  AttentionScores scores_with(const at::Tensor& bias) const;

  TensorRanksPtr ranks_;
  int64_t width_;
  double dropout_;
  AdaptedLinear q_{nullptr}, k_{nullptr}, v_{nullptr}, o_{nullptr};
};

class T5Mlp final : public torch::nn::Module {
 public:
  T5Mlp(const T5Options& options, const TensorRanksPtr& ranks);
  at::Tensor forward(const at::Tensor& inputs);

 private:
  TensorRanksPtr ranks_;
  HfActivation activation_;
  double dropout_;
  AdaptedLinear in_{nullptr}, up_{nullptr}, out_{nullptr};  ///< `up_` of a gated MLP
};

class T5Block final : public torch::nn::Module, public Block {
 public:
  T5Block(const T5Options& options, bool is_decoder, const TensorRanksPtr& ranks);
  at::Tensor forward(const at::Tensor& x, const T5Pass& pass, T5Cache cache);

 private:
  at::Tensor dropped(const at::Tensor& x) const;

  double dropout_;
  std::shared_ptr<T5Attention> attention_, cross_attention_;
  std::shared_ptr<T5Mlp> mlp_;
  std::shared_ptr<T5Norm> attention_norm_, cross_norm_, mlp_norm_;
};

/// The decoder's cached source in all layers.
using SourceCache = std::vector<SourceKeys>;

/// What a decoder reads besides its targets.
struct T5Source {
  at::Tensor hidden;     ///< of the encoder; undefined where all keys are known
  at::Tensor bias = {};  ///< of cross-attention; undefined: all tokens are visible
};

/// -inf for the padding of sources, [batch, 1, 1, length], by their lengths.
at::Tensor bias_of_lengths(const std::vector<int64_t>& lengths, at::Device device);

/// What the tokens of targets see besides the order: bool as for encode(); undefined: all.
struct T5Visible {
  at::Tensor source;    ///< [batch, source length] or [batch, target length, source length]
  at::Tensor own = {};  ///< [batch, target length, target length]
};

/// Blocks, their table of relative positions, and the last norm.
class T5Stack final : public torch::nn::Module {
 public:
  T5Stack(const T5Options& options, bool is_decoder, const TensorRanksPtr& ranks);

  /// The encoder: embeddings [batch, length, hidden_size] to the same. `visible`: bool, false for
  /// hidden tokens, [batch, length] or for each token [batch, length, length]; undefined: all are
  /// visible.
  at::Tensor encode(const at::Tensor& x, const at::Tensor& visible);
  /// The decoder of whole targets. `source`: the output of encode().
  at::Tensor decode(const at::Tensor& x, const at::Tensor& source, const T5Visible& visible);
  /// Of tokens at `positions` [tokens] or [batch, tokens] that follow those in `seen`, to which it
  /// adds them. `known` has one entry for each layer, filled from `source` by the first pass.
  at::Tensor decode_next(const at::Tensor& x, const at::Tensor& positions, KeyValueCache& seen,
                         SourceCache& known, const T5Source& source);

 private:
  at::Tensor position_bias(const at::Tensor& positions, int64_t keys);
  at::Tensor dropped(const at::Tensor& x) const;
  at::Tensor run(const at::Tensor& x, const T5Pass& pass);

  TensorRanksPtr ranks_;
  bool is_decoder_;
  int64_t buckets_, max_distance_;
  double dropout_;
  torch::nn::Embedding relative_attention_bias_{nullptr};
  std::vector<std::shared_ptr<T5Block>> blocks_;
  std::shared_ptr<T5Norm> final_norm_;
};

}  // namespace accel
