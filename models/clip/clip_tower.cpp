#include "models/clip/clip_tower.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>

#include <cmath>

#include "core/base/error.h"
#include "core/base/text.h"
#include "models/layers/activations.h"
#include "models/layers/self_attention.h"

namespace accel {
namespace {

constexpr double kClipEmbeddingDeviation = 0.02;
/// The value of `eos_token_id` for which transformers takes the highest token of a text.
constexpr int64_t kHighestToken = 2;

using ClipPart = torch::nn::Module;

std::shared_ptr<ClipPart> clip_part(ClipPart& in, const char* name) {
  return in.register_module(name, std::make_shared<ClipPart>());
}

AdaptedLinear clip_linear(ClipPart& in, const char* name, torch::nn::LinearOptions sizes,
                          double deviation) {
  AdaptedLinear layer = in.register_module(name, AdaptedLinear(sizes));
  const torch::NoGradGuard no_grad;
  torch::nn::init::normal_(layer->weight, 0.0, deviation);
  torch::nn::init::zeros_(layer->bias);
  return layer;
}

torch::nn::LayerNorm clip_norm(ClipPart& in, const char* name, const ClipSizes& sizes) {
  const auto norm = torch::nn::LayerNormOptions({sizes.width}).eps(sizes.norm_eps);
  return in.register_module(name, torch::nn::LayerNorm(norm));
}

torch::nn::Embedding clip_positions(ClipPart& in, int64_t count, const ClipSizes& sizes) {
  auto table = in.register_module("position_embedding", torch::nn::Embedding(count, sizes.width));
  const torch::NoGradGuard no_grad;
  torch::nn::init::normal_(table->weight, 0.0, kClipEmbeddingDeviation * sizes.factor);
  return table;
}

ClipBlocks clip_blocks(ClipPart& in, const ClipSizes& sizes) {
  ClipBlocks blocks;
  torch::nn::ModuleList list;
  for (int64_t i = 0; i < sizes.layers; ++i) {
    blocks.push_back(std::make_shared<ClipBlock>(sizes));
    list->push_back(blocks.back());
  }
  clip_part(in, "encoder")->register_module("layers", list);
  return blocks;
}

template <class Tower>
ClipSizes clip_sizes(const Tower& tower, const ClipOptions& options) {
  return {tower.num_layers,          tower.num_heads,
          tower.hidden_size,         tower.intermediate_size.value_or(4 * tower.hidden_size),
          tower.activation,          tower.norm_eps,
          options.attention_dropout, options.initializer_factor};
}

}  // namespace

ClipSizes ClipSizes::of_text(const ClipOptions& options) {
  return clip_sizes(options.text, options);
}

ClipSizes ClipSizes::of_vision(const ClipOptions& options) {
  return clip_sizes(options.vision, options);
}

ClipBlock::ClipBlock(const ClipSizes& sizes)
    : heads_(sizes.heads), activation_(sizes.activation), dropout_(sizes.attention_dropout) {
  const int64_t width = sizes.width;
  const double deviation = sizes.factor / std::sqrt(static_cast<double>(width));
  const double inward = deviation / std::sqrt(2.0 * static_cast<double>(sizes.layers));
  const auto attention = clip_part(*this, "self_attn");
  key_ = clip_linear(*attention, "k_proj", {width, width}, inward);
  value_ = clip_linear(*attention, "v_proj", {width, width}, inward);
  query_ = clip_linear(*attention, "q_proj", {width, width}, inward);
  out_ = clip_linear(*attention, "out_proj", {width, width}, deviation);
  norm1_ = clip_norm(*this, "layer_norm1", sizes);
  const auto mlp = clip_part(*this, "mlp");
  inner_ = clip_linear(*mlp, "fc1", {width, sizes.inner}, deviation / std::sqrt(2.0));
  outer_ = clip_linear(*mlp, "fc2", {sizes.inner, width}, inward);
  norm2_ = clip_norm(*this, "layer_norm2", sizes);
}

at::Tensor ClipBlock::attended(const at::Tensor& x, const VisibleKeys& keys,
                               TokenPositions places) {
  const SelfAttention attention{*query_, *key_, *value_, heads_, is_training() ? dropout_ : 0.0};
  return out_->forward(attend(attention, x, keys, places));
}

at::Tensor ClipBlock::forward(const at::Tensor& x, const VisibleKeys& keys, TokenPositions places) {
  const at::Tensor y = select_cls_token(x, places).add(attended(norm1_->forward(x), keys, places));
  return y.add(feed_forward(activation_, *inner_, *outer_, norm2_->forward(y)));
}

ClipText::ClipText(int64_t vocab, int64_t longest, const ClipOptions& options)
    : eos_(*options.text.eos_token_id) {
  const ClipSizes sizes = ClipSizes::of_text(options);
  const auto embeddings = clip_part(*this, "embeddings");
  tokens_ = embeddings->register_module("token_embedding", AdaptedEmbedding(vocab, sizes.width));
  {
    const torch::NoGradGuard no_grad;
    torch::nn::init::normal_(tokens_->weight, 0.0, kClipEmbeddingDeviation * sizes.factor);
  }
  positions_ = clip_positions(*embeddings, longest, sizes);
  blocks_ = clip_blocks(*this, sizes);
  norm_ = clip_norm(*this, "final_layer_norm", sizes);
}

/// As transformers, of the first token of that number.
at::Tensor ClipText::end_positions(const at::Tensor& tokens) const {
  if (eos_ == kHighestToken) return tokens.argmax(1);
  const at::Tensor is_end = tokens.eq(eos_);
  if (!is_end.any(1).all().item<bool>()) {
    throw DataError(text("a text of the batch has no token {}, the model's 'eos_token_id'", eos_),
                    "use the model's tokenizer, or set 'append_eos: true' of the data");
  }
  return is_end.to(at::kInt).argmax(1);
}

at::Tensor ClipText::forward(const at::Tensor& tokens) {
  const int64_t length = tokens.size(1);
  at::Tensor x = tokens_->forward(tokens).add(
      positions_->forward(at::arange(length, tokens.options())).unsqueeze(0));
  for (const auto& block : blocks_) x = run_block(*block, x, VisibleKeys(), TokenPositions::kAll);
  const at::Tensor ends =
      at::arange(tokens.size(0), tokens.options()).mul(length).add(end_positions(tokens));
  return norm_->forward(x.flatten(0, 1).index_select(0, ends));
}

ClipVision::ClipVision(int64_t channels, int64_t patches, const ClipOptions& options) {
  const ClipSizes sizes = ClipSizes::of_vision(options);
  const int64_t side = options.vision.patch_size;
  const auto embeddings = clip_part(*this, "embeddings");
  class_ = embeddings->register_parameter("class_embedding", at::empty({sizes.width}));
  const auto kernel =
      torch::nn::Conv2dOptions(channels, sizes.width, side).stride(side).bias(false);
  patches_ = embeddings->register_module("patch_embedding", torch::nn::Conv2d(kernel));
  {
    const torch::NoGradGuard no_grad;
    torch::nn::init::normal_(class_, 0.0,
                             sizes.factor / std::sqrt(static_cast<double>(sizes.width)));
    torch::nn::init::normal_(patches_->weight, 0.0, kClipEmbeddingDeviation * sizes.factor);
  }
  positions_ = clip_positions(*embeddings, patches + 1, sizes);
  before_ = clip_norm(*this, "pre_layrnorm", sizes);
  blocks_ = clip_blocks(*this, sizes);
  after_ = clip_norm(*this, "post_layernorm", sizes);
}

at::Tensor ClipVision::forward(const at::Tensor& images) {
  const at::Tensor patches = patches_->forward(images).flatten(2).transpose(1, 2);
  const at::Tensor first = class_.expand({images.size(0), 1, -1});
  at::Tensor x = before_->forward(
      at::cat({first.to(patches.scalar_type()), patches}, 1).add(positions_->weight));
  const VisibleKeys keys = visible_in_lengths({}, {}, x.size(1), x.options().dtype(at::kLong));
  for (const auto& block : blocks_) {
    const bool is_last = block == blocks_.back();
    x = run_block(*block, x, keys,
                  is_last ? positions_to_compute(TokenPositions::kFirst) : TokenPositions::kAll);
  }
  return after_->forward(x.select(1, 0));
}

}  // namespace accel
