#include "models/t5/t5_stack.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/where.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/rms_norm.h"

namespace accel {
namespace {

/// A layer without bias whose initial weight has a deviation of `deviation`.
AdaptedLinear t5_linear(torch::nn::Module& in, const char* name, torch::nn::LinearOptions sizes,
                        double deviation) {
  AdaptedLinear layer = in.register_module(name, AdaptedLinear(sizes.bias(false)));
  const torch::NoGradGuard no_grad;
  torch::nn::init::normal_(layer->weight, 0.0, deviation);
  return layer;
}

double inverse_root(int64_t size) {
  return 1 / std::sqrt(static_cast<double>(size));
}

/// Buckets of signed distances from queries to keys: a half of them exact, the others for distances
/// that grow logarithmically. `bidirectional`: a half for each sign; else only for keys before the
/// query.
at::Tensor bucketed_distance(const at::Tensor& distance, bool bidirectional, int64_t buckets,
                             int64_t max_distance) {
  const int64_t count = bidirectional ? buckets / 2 : buckets, exact = count / 2;
  const at::Tensor size = bidirectional ? distance.abs() : distance.clamp_max(0).neg();
  const double range = std::log(static_cast<double>(max_distance) / static_cast<double>(exact));
  const at::Tensor far = size.to(at::kFloat)
                             .div(exact)
                             .log()
                             .div(range)
                             .mul(count - exact)
                             .clamp_min(0)  // distance 0, whose logarithm is infinite
                             .to(at::kLong)
                             .add(exact)
                             .clamp_max(count - 1);
  const at::Tensor bucket = at::where(size.lt(exact), size, far);
  return bidirectional ? bucket.add(distance.gt(0).to(at::kLong), count) : bucket;
}

/// [batch, keys] or [batch, tokens, keys], broadcast to [batch, heads, tokens, keys].
at::Tensor by_heads(const at::Tensor& visible) {
  const at::Tensor by_token = visible.dim() == 2 ? visible.unsqueeze(1) : visible;
  return by_token.unsqueeze(1);
}

/// -inf where a bool is false, broadcast to [batch, heads, tokens, keys].
at::Tensor hidden_where_not(const at::Tensor& visible, const at::Tensor& bias) {
  return bias.masked_fill(visible.logical_not(), -std::numeric_limits<double>::infinity());
}

/// The bias of attention to a source of `keys` tokens; undefined where all are visible.
at::Tensor bias_of_source(const at::Tensor& visible) {
  if (!visible.defined()) return {};
  const auto options = at::TensorOptions().dtype(at::kFloat).device(visible.device());
  return hidden_where_not(by_heads(visible), at::full({1, 1, 1, visible.size(-1)}, 0, options));
}

}  // namespace

at::Tensor bias_of_lengths(const std::vector<int64_t>& lengths, at::Device device) {
  const at::Tensor sizes = at::tensor(lengths, at::kLong).to(device).unsqueeze(1);
  const int64_t longest = *std::max_element(lengths.begin(), lengths.end());
  return bias_of_source(at::arange(longest, sizes.options()).unsqueeze(0).lt(sizes));
}

T5Norm::T5Norm(const T5Options& options) : epsilon_(options.norm_eps) {
  weight_ =
      register_parameter("weight", at::full({options.hidden_size}, options.initializer_factor));
}

at::Tensor T5Norm::forward(const at::Tensor& x) {
  return rms_norm(x, weight_, epsilon_);
}

T5Attention::T5Attention(const T5Options& options, const TensorRanksPtr& ranks)
    : ranks_(ranks), width_(options.per_head()), dropout_(options.dropout) {
  const int64_t width = options.hidden_size, inner = options.attended();
  const double factor = options.initializer_factor, deviation = factor * inverse_root(width);
  q_ = t5_linear(*this, "q", {width, inner}, factor * inverse_root(width * width_));
  k_ = t5_linear(*this, "k", {width, inner}, deviation);
  v_ = t5_linear(*this, "v", {width, inner}, deviation);
  o_ = t5_linear(*this, "o", {inner, width}, factor * inverse_root(inner));
  o_->divide_inputs(ranks);
}

/// [batch, tokens, heads x width] to [batch, heads, tokens, width].
at::Tensor T5Attention::by_head(const at::Tensor& x) const {
  return x.unflatten(2, {-1, width_}).transpose(1, 2);
}

at::Tensor T5Attention::joined(const at::Tensor& heads) {
  return o_->forward(heads.transpose(1, 2).flatten(2));
}

AttentionScores T5Attention::scores_with(const at::Tensor& bias) const {
  return {.scale = 1.0, .dropout = is_training() ? dropout_ : 0, .bias = bias};
}

at::Tensor T5Attention::to_itself(const at::Tensor& inputs, const at::Tensor& bias,
                                  LayerCache* seen) {
  const at::Tensor x = enter(ranks_, inputs);
  const at::Tensor query = by_head(q_->forward(x));
  const at::Tensor key = by_head(k_->forward(x));
  const at::Tensor value = by_head(v_->forward(x));
  const AttentionScores scores = scores_with(bias);
  if (seen) return joined(seen->attend(query, key, value, scores));
  return joined(attended(query, key, value, scores));
}

at::Tensor T5Attention::to_source(const at::Tensor& x, const T5Pass& pass, SourceKeys* known) {
  const at::Tensor query = by_head(q_->forward(enter(ranks_, x)));
  SourceKeys keys = known ? *known : SourceKeys();
  if (!keys.key.defined()) {
    keys = {by_head(k_->forward(pass.source)), by_head(v_->forward(pass.source))};
    if (known) *known = keys;
  }
  // One source may have several targets.
  const at::Tensor key = keys.key.expand({query.size(0), -1, -1, -1});
  const at::Tensor value = keys.value.expand({query.size(0), -1, -1, -1});
  return joined(attended(query, key, value, scores_with(pass.source_bias)));
}

at::Tensor T5Attention::attended(const at::Tensor& query, const at::Tensor& key,
                                 const at::Tensor& value, const AttentionScores& scores) const {
  const auto stream = own_random_stream(ranks_, query.device(), scores.dropout > 0);
  return scored_attention({query, key, value, {}, /*is_causal=*/false}, scores);
}

T5Mlp::T5Mlp(const T5Options& options, const TensorRanksPtr& ranks)
    : ranks_(ranks), activation_(options.activation), dropout_(options.dropout) {
  const int64_t width = options.hidden_size, inner = options.inner();
  const double factor = options.initializer_factor, deviation = factor * inverse_root(width);
  const bool is_gated = options.is_gated_act;
  in_ = t5_linear(*this, is_gated ? "wi_0" : "wi", {width, inner}, deviation);
  if (is_gated) up_ = t5_linear(*this, "wi_1", {width, inner}, deviation);
  out_ = t5_linear(*this, "wo", {inner, width}, factor * inverse_root(inner));
  out_->divide_inputs(ranks);
}

at::Tensor T5Mlp::forward(const at::Tensor& inputs) {
  const at::Tensor x = enter(ranks_, inputs);
  const at::Tensor inner = up_ ? gated(activation_, in_->forward(x), up_->forward(x))
                               : activate(activation_, in_->forward(x));
  return out_->forward(own_dropout(ranks_, inner, is_training() ? dropout_ : 0.0));
}

T5Block::T5Block(const T5Options& options, bool is_decoder, const TensorRanksPtr& ranks)
    : dropout_(options.dropout) {
  torch::nn::ModuleList layers;
  register_module("layer", layers);
  const auto add = [&](const char* name, std::shared_ptr<torch::nn::Module> part,
                       std::shared_ptr<T5Norm> norm) {
    const auto layer = std::make_shared<torch::nn::Module>();
    layer->register_module(name, std::move(part));
    layer->register_module("layer_norm", std::move(norm));
    layers->push_back(layer);
  };
  attention_ = std::make_shared<T5Attention>(options, ranks);
  attention_norm_ = std::make_shared<T5Norm>(options);
  add("SelfAttention", attention_, attention_norm_);
  if (is_decoder) {
    cross_attention_ = std::make_shared<T5Attention>(options, ranks);
    cross_norm_ = std::make_shared<T5Norm>(options);
    add("EncDecAttention", cross_attention_, cross_norm_);
  }
  mlp_ = std::make_shared<T5Mlp>(options, ranks);
  mlp_norm_ = std::make_shared<T5Norm>(options);
  add("DenseReluDense", mlp_, mlp_norm_);
}

at::Tensor T5Block::dropped(const at::Tensor& x) const {
  return at::dropout(x, dropout_, is_training());
}

at::Tensor T5Block::forward(const at::Tensor& x, const T5Pass& pass, T5Cache cache) {
  at::Tensor y =
      x.add(dropped(attention_->to_itself(attention_norm_->forward(x), pass.bias, cache.seen)));
  if (cross_attention_) {
    y = y.add(dropped(cross_attention_->to_source(cross_norm_->forward(y), pass, cache.source)));
  }
  return y.add(dropped(mlp_->forward(mlp_norm_->forward(y))));
}

T5Stack::T5Stack(const T5Options& options, bool is_decoder, const TensorRanksPtr& ranks)
    : ranks_(ranks),
      is_decoder_(is_decoder),
      buckets_(options.relative_attention_num_buckets),
      max_distance_(options.relative_attention_max_distance),
      dropout_(options.dropout) {
  relative_attention_bias_ =
      register_module("relative_attention_bias", torch::nn::Embedding(buckets_, options.num_heads));
  {
    const torch::NoGradGuard no_grad;
    torch::nn::init::normal_(relative_attention_bias_->weight, 0.0,
                             options.initializer_factor * inverse_root(options.hidden_size));
  }
  torch::nn::ModuleList list;
  const int64_t count = is_decoder ? options.decoder_layers() : options.num_layers;
  for (int64_t i = 0; i < count; ++i) {
    blocks_.push_back(std::make_shared<T5Block>(options, is_decoder, ranks));
    list->push_back(blocks_.back());
  }
  register_module("block", list);
  final_norm_ = register_module("final_layer_norm", std::make_shared<T5Norm>(options));
}

at::Tensor T5Stack::dropped(const at::Tensor& x) const {
  return at::dropout(x, dropout_, is_training());
}

/// Of queries at `positions` to keys at the positions from 0 on, [1 or batch, heads, tokens, keys].
at::Tensor T5Stack::position_bias(const at::Tensor& positions, int64_t keys) {
  const at::Tensor rows = positions.dim() == 1 ? positions.unsqueeze(0) : positions;
  const at::Tensor distance = at::arange(keys, positions.options()).sub(rows.unsqueeze(-1));
  const at::Tensor buckets = bucketed_distance(distance, !is_decoder_, buckets_, max_distance_);
  const at::Tensor bias = relative_attention_bias_->forward(buckets).permute({0, 3, 1, 2});
  return is_decoder_ ? hidden_where_not(distance.le(0).unsqueeze(1), bias) : bias;
}

at::Tensor T5Stack::run(const at::Tensor& x, const T5Pass& pass) {
  at::Tensor y = dropped(x);
  for (const auto& block : blocks_) y = run_block(*block, y, pass, T5Cache());
  return dropped(final_norm_->forward(y));
}

at::Tensor T5Stack::encode(const at::Tensor& x, const at::Tensor& visible) {
  const auto numbers = at::TensorOptions().dtype(at::kLong).device(x.device());
  const at::Tensor bias = position_bias(at::arange(x.size(1), numbers), x.size(1));
  const bool is_padded = visible.defined();
  return run(x, {is_padded ? hidden_where_not(by_heads(visible), bias) : bias, {}, {}});
}

at::Tensor T5Stack::decode(const at::Tensor& x, const at::Tensor& source,
                           const T5Visible& visible) {
  const auto numbers = at::TensorOptions().dtype(at::kLong).device(x.device());
  at::Tensor bias = position_bias(at::arange(x.size(1), numbers), x.size(1));
  if (visible.own.defined()) bias = hidden_where_not(by_heads(visible.own), bias);
  return run(x, {bias, enter(ranks_, source), bias_of_source(visible.source)});
}

at::Tensor T5Stack::decode_next(const at::Tensor& x, const at::Tensor& positions,
                                KeyValueCache& seen, SourceCache& known, const T5Source& source) {
  const int64_t keys = positions.max().item<int64_t>() + 1;
  const at::Tensor hidden = source.hidden.defined() ? enter(ranks_, source.hidden) : source.hidden;
  const T5Pass pass{position_bias(positions, keys), hidden, source.bias};
  known.resize(blocks_.size());
  at::Tensor y = dropped(x);
  for (size_t i = 0; i < blocks_.size(); ++i) {
    y = run_block(*blocks_[i], y, pass, T5Cache{&seen.layer(i), &known[i]});
  }
  return dropped(final_norm_->forward(y));
}

}  // namespace accel
