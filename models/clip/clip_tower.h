// The towers of CLIP. Parameter names and their order are those of transformers' CLIPModel.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <memory>
#include <vector>

#include "core/api/block.h"
#include "models/clip/clip_options.h"
#include "models/layers/adapted_embedding.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/context_parallel.h"
#include "models/layers/token_positions.h"

namespace accel {

/// What the blocks of both towers have.
struct ClipSizes {
  int64_t layers, heads, width, inner;
  HfActivation activation;
  double norm_eps;
  double attention_dropout;
  double factor;  ///< of initial weights

  static ClipSizes of_text(const ClipOptions& options);
  static ClipSizes of_vision(const ClipOptions& options);
};

class ClipBlock final : public torch::nn::Module, public Block {
 public:
  explicit ClipBlock(const ClipSizes& sizes);
  /// The output has `places` of the inputs.
  at::Tensor forward(const at::Tensor& x, const VisibleKeys& keys, TokenPositions places);

 private:
  at::Tensor attended(const at::Tensor& x, const VisibleKeys& keys, TokenPositions places);

  int64_t heads_;
  HfActivation activation_;
  double dropout_;
  AdaptedLinear query_{nullptr}, key_{nullptr}, value_{nullptr}, out_{nullptr};
  AdaptedLinear inner_{nullptr}, outer_{nullptr};
  torch::nn::LayerNorm norm1_{nullptr}, norm2_{nullptr};
};
using ClipBlocks = std::vector<std::shared_ptr<ClipBlock>>;

class ClipText final : public torch::nn::Module {
 public:
  ClipText(int64_t vocab, int64_t longest, const ClipOptions& options);
  /// Tokens [batch, length] to [batch, width]. Throws DataError for a text without an end token.
  at::Tensor forward(const at::Tensor& tokens);

 private:
  at::Tensor end_positions(const at::Tensor& tokens) const;

  int64_t eos_;
  AdaptedEmbedding tokens_{nullptr};
  torch::nn::Embedding positions_{nullptr};
  ClipBlocks blocks_;
  torch::nn::LayerNorm norm_{nullptr};
};

class ClipVision final : public torch::nn::Module {
 public:
  ClipVision(int64_t channels, int64_t patches, const ClipOptions& options);
  /// Images to [batch, width].
  at::Tensor forward(const at::Tensor& images);

 private:
  at::Tensor class_;
  torch::nn::Conv2d patches_{nullptr};
  torch::nn::Embedding positions_{nullptr};
  torch::nn::LayerNorm before_{nullptr}, after_{nullptr};
  ClipBlocks blocks_;
};

}  // namespace accel
