#include "models/bert_encoder.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>

#include "models/self_attention.h"

namespace accel {
namespace {

/// Where `path` is registered: in the part before its last dot, under what is behind it.
struct BertPlace {
  std::shared_ptr<BertPart> part;  ///< null: the module itself
  BertPart& in;
  std::string name;
};

BertPlace place_of(BertPart& in, const std::string& path) {
  const size_t dot = path.rfind('.');
  if (dot == path.npos) return {nullptr, in, path};
  std::shared_ptr<BertPart> part = bert_part(in, path.substr(0, dot));
  BertPart& module = *part;
  return {std::move(part), module, path.substr(dot + 1)};
}

}  // namespace

std::shared_ptr<BertPart> bert_part(BertPart& in, const std::string& path) {
  const BertPlace place = place_of(in, path);
  const auto children = place.in.named_children();
  if (const auto* known = children.find(place.name)) return *known;
  return place.in.register_module(place.name, std::make_shared<BertPart>());
}

AdaptedLinear bert_linear(BertPart& in, const std::string& path, int64_t inputs, int64_t outputs) {
  const BertPlace place = place_of(in, path);
  return place.in.register_module(place.name, AdaptedLinear(inputs, outputs));
}

torch::nn::LayerNorm bert_norm(BertPart& in, const std::string& path, const BertOptions& options) {
  const BertPlace place = place_of(in, path);
  const auto norm = torch::nn::LayerNormOptions({options.width}).eps(options.epsilon);
  return place.in.register_module(place.name, torch::nn::LayerNorm(norm));
}

at::Tensor bert_bias(BertPart& in, const std::string& path, int64_t size) {
  const BertPlace place = place_of(in, path);
  return place.in.register_parameter(place.name, at::zeros({size}));
}

BertLayer::BertLayer(const BertKind& kind, const BertOptions& options)
    : heads_(options.heads),
      activation_(options.activation),
      dropout_(options.dropout),
      attention_dropout_(options.attention_dropout.value_or(options.dropout)),
      drops_attended_(kind.drops_attended) {
  const int64_t width = options.width, hidden = options.hidden.value_or(4 * width);
  query_ = bert_linear(*this, kind.query, width, width);
  key_ = bert_linear(*this, kind.key, width, width);
  value_ = bert_linear(*this, kind.value, width, width);
  attended_ = bert_linear(*this, kind.attended, width, width);
  attended_norm_ = bert_norm(*this, kind.attended_norm, options);
  inner_ = bert_linear(*this, kind.inner, width, hidden);
  outer_ = bert_linear(*this, kind.outer, hidden, width);
  outer_norm_ = bert_norm(*this, kind.outer_norm, options);
}

at::Tensor BertLayer::forward(const at::Tensor& x, const std::optional<at::Tensor>& mask,
                              Places places) {
  const at::Tensor asking = at_places(x, places);
  const at::Tensor attended = attended_->forward(
      attend({*query_, *key_, *value_, heads_, is_training() ? attention_dropout_ : 0.0}, x, mask,
             places));
  const at::Tensor seen =
      attended_norm_->forward((drops_attended_ ? dropped(attended) : attended).add(asking));
  const at::Tensor inner = activate(activation_, *inner_, seen);
  return outer_norm_->forward(dropped(outer_->forward(inner)).add(seen));
}

BertEncoder::BertEncoder(const BertKind& kind, const BertOptions& options, int64_t vocab,
                         int64_t context)
    : dropout_(options.dropout) {
  if (kind.skips_pads) pad_ = options.pad;
  const auto embeddings = bert_part(*this, "embeddings");
  const auto table = [&](const char* name, torch::nn::EmbeddingOptions size) {
    return embeddings->register_module(name, torch::nn::Embedding(size));
  };
  const auto padded = [&](int64_t rows) {
    return torch::nn::EmbeddingOptions(rows, options.width).padding_idx(pad_);
  };
  words_ = table("word_embeddings", padded(vocab));
  positions_ = table("position_embeddings", padded(first_position(kind, options) + context));
  if (kind.has_segments) {
    segments_ = table("token_type_embeddings", {options.segments, options.width});
  }
  norm_ = bert_norm(*embeddings, "LayerNorm", options);
  torch::nn::ModuleList list;
  for (int64_t i = 0; i < options.layers; ++i) {
    layers_.push_back(std::make_shared<BertLayer>(kind, options));
    list->push_back(layers_.back());
  }
  const BertPlace blocks = place_of(*this, kind.blocks);
  blocks.in.register_module(blocks.name, list);
}

at::Tensor BertEncoder::positions_of(const at::Tensor& tokens) const {
  if (!pad_) return at::arange(tokens.size(1), tokens.options());
  const at::Tensor counted = tokens.ne(*pad_).to(tokens.scalar_type());
  return counted.cumsum(1).mul(counted).add(*pad_);
}

at::Tensor BertEncoder::forward(const Batch& batch, Places read) {
  const at::Tensor& tokens = batch.inputs;
  at::Tensor x = words_->forward(tokens);
  if (segments_) {
    // A table of one row is for texts that only their separators tell apart.
    const bool told_apart = batch.segments.defined() && segments_->options.num_embeddings() > 1;
    x = x.add(told_apart ? segments_->forward(batch.segments) : segments_->weight.select(0, 0));
  }
  x = norm_->forward(x.add(positions_->forward(positions_of(tokens))));
  x = at::dropout(x, dropout_, is_training());
  std::optional<at::Tensor> mask;
  if (batch.lengths.defined()) {
    const at::Tensor places = at::arange(tokens.size(1), tokens.options());
    mask = places.unsqueeze(0).lt(batch.lengths.unsqueeze(1)).unsqueeze(1).unsqueeze(1);
  }
  for (const auto& layer : layers_) {
    const bool is_last = layer == layers_.back();
    x = run_block(*layer, x, mask, is_last ? places_to_compute(read) : Places::kAll);
  }
  return x;
}

}  // namespace accel
