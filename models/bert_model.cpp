#include "models/bert_model.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/init.h>

#include "core/api/packed_sequences.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/sizes.h"

namespace accel {

namespace {

/// The module that registers `path`, and the last component of the path.
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
  const auto norm = torch::nn::LayerNormOptions({options.hidden_size}).eps(options.norm_eps);
  return place.in.register_module(place.name, torch::nn::LayerNorm(norm));
}

torch::nn::LayerNorm bert_embedding_norm(BertPart& in, const std::string& path,
                                         const BertOptions& options) {
  BertOptions narrow = options;
  narrow.hidden_size = options.embedded();
  return bert_norm(in, path, narrow);
}

at::Tensor bert_bias(BertPart& in, const std::string& path, int64_t size) {
  const BertPlace place = place_of(in, path);
  return place.in.register_parameter(place.name, at::zeros({size}));
}

BertLayer::BertLayer(const BertKind& kind, const BertOptions& options, const TensorRanksPtr& ranks)
    : ranks_(ranks),
      heads_(options.num_heads / (ranks ? ranks->size() : 1)),
      activation_(options.activation),
      dropout_(options.dropout),
      attention_dropout_(options.attention_dropout.value_or(options.dropout)),
      drops_attended_(kind.drops_attended) {
  const int64_t width = options.hidden_size, hidden = options.intermediate_size.value_or(4 * width);
  query_ = bert_linear(*this, kind.query, width, width);
  key_ = bert_linear(*this, kind.key, width, width);
  value_ = bert_linear(*this, kind.value, width, width);
  if (kind.has_relative) add_relative(options);
  attended_ = bert_linear(*this, kind.attended, width, width);
  attended_norm_ = bert_norm(*this, kind.attended_norm, options);
  inner_ = bert_linear(*this, kind.inner, width, hidden);
  outer_ = bert_linear(*this, kind.outer, hidden, width);
  outer_norm_ = bert_norm(*this, kind.outer_norm, options);
  attended_->divide_inputs(ranks);
  outer_->divide_inputs(ranks);
}

void BertLayer::add_relative(const BertOptions& options) {
  const int64_t width = options.hidden_size;
  const RelativeOptions& relative = options.relative;
  const bool shared = relative.share_projections;
  if (relative.content_to_position) {
    relative_key_ = shared ? key_ : bert_linear(*this, "attention.self.pos_key_proj", width, width);
  }
  if (relative.position_to_content) {
    relative_query_ =
        shared ? query_ : bert_linear(*this, "attention.self.pos_query_proj", width, width);
  }
}

at::Tensor BertLayer::attended(const at::Tensor& x, const VisibleKeys& keys, TokenPositions places,
                               const RelativePass& relative) {
  const double dropout = is_training() ? attention_dropout_ : 0.0;
  const auto stream = own_random_stream(ranks_, x.device(), dropout > 0);
  const SelfAttention by = {*query_, *key_, *value_, heads_, dropout};
  const at::Tensor inputs = enter(ranks_, x);
  if (!relative.table.defined()) return attend(by, inputs, keys, places);
  const RelativeTerms terms = {relative_key_ ? &*relative_key_ : nullptr,
                               relative_query_ ? &*relative_query_ : nullptr,
                               is_training() ? dropout_ : 0.0};
  const RelativePass entered = {enter(ranks_, relative.table), relative.key_rows,
                                relative.query_rows};
  return select_cls_token(disentangled_attention(by, terms, inputs, keys.mask, entered), places);
}

at::Tensor BertLayer::forward(const at::Tensor& x, const VisibleKeys& keys, TokenPositions places,
                              const RelativePass& relative) {
  const at::Tensor y = attended_->forward(attended(x, keys, places, relative));
  const at::Tensor asking = select_cls_token(x, places);
  const at::Tensor seen = attended_norm_->forward((drops_attended_ ? dropped(y) : y).add(asking));
  const at::Tensor z = feed_forward(activation_, *inner_, *outer_, enter(ranks_, seen));
  return outer_norm_->forward(dropped(z).add(seen));
}

BertEncoder::BertEncoder(const BertKind& kind, const BertOptions& options, int64_t vocab,
                         int64_t context, const TensorRanksPtr& ranks)
    : ranks_(ranks),
      skips_pads_(kind.skips_pads),
      relative_options_(options.relative),
      relative_context_(options.relative_context()),
      dropout_(options.dropout) {
  if (options.pad >= 0) pad_ = options.pad;
  const auto embeddings = bert_part(*this, "embeddings");
  const auto table = [&](const char* name, torch::nn::EmbeddingOptions size) {
    return embeddings->register_module(name, AdaptedEmbedding(size));
  };
  const auto padded = [&](int64_t rows, std::optional<int64_t> pad) {
    return torch::nn::EmbeddingOptions(rows, options.embedded()).padding_idx(pad);
  };
  words_ = table("word_embeddings", padded(vocab, pad_));
  if (!kind.has_relative || options.absolute_positions) {
    positions_ = table("position_embeddings", padded(first_position(kind, options) + context,
                                                     kind.skips_pads ? pad_ : std::nullopt));
  }
  if (kind.has_segments || (kind.has_relative && options.segments > 0)) {
    segments_ = table("token_type_embeddings", {options.segments, options.embedded()});
  }
  norm_ = bert_embedding_norm(*embeddings, "LayerNorm", options);
  if (options.embedded() != options.hidden_size) {
    projection_ = bert_linear(*this, kind.projection, options.embedded(), options.hidden_size);
  }
  torch::nn::ModuleList list;
  for (int64_t i = 0; i < options.num_layers; ++i) {
    layers_.push_back(std::make_shared<BertLayer>(kind, options, ranks));
    list->push_back(layers_.back());
  }
  const BertPlace blocks = place_of(*this, kind.blocks);
  blocks.in.register_module(blocks.name, list);
  if (!kind.has_relative) return;
  const int64_t rows = 2 * options.relative.span(relative_context_);
  relative_ =
      blocks.in.register_module("rel_embeddings", torch::nn::Embedding(rows, options.hidden_size));
  if (options.relative.norm) relative_norm_ = bert_norm(blocks.in, "LayerNorm", options);
}

RelativePass BertEncoder::relative_pass_of(int64_t length) {
  if (!relative_) return {};
  const at::Tensor table =
      relative_norm_ ? relative_norm_->forward(relative_->weight) : relative_->weight;
  return relative_pass(relative_options_, relative_context_, length, table);
}

at::Tensor BertEncoder::positions_of(const at::Tensor& tokens,
                                     const BlockDiagonalMask& texts) const {
  const at::Tensor& apart = texts.positions;
  const at::Tensor places = at::arange(tokens.size(1), tokens.options());
  if (!skips_pads_) return apart.defined() ? apart : places;
  const at::Tensor counted = tokens.ne(*pad_).to(tokens.scalar_type());
  at::Tensor number = counted.cumsum(1);
  if (apart.defined()) number = number.sub(number.sub(counted).gather(1, places.sub(apart)));
  return number.mul(counted).add(*pad_);
}

at::Tensor BertEncoder::embedded(const Batch& batch, const BlockDiagonalMask& texts,
                                 const ContextRanks* context) {
  const at::Tensor tokens = own_positions(context, batch.inputs, 1, 0);
  at::Tensor x = words_->adapted(
      vocabulary_embedding(vocabulary(), words_->weight, tokens, /*tied=*/false, pad_), tokens);
  if (segments_) {
    // With a single token type, texts of a pair are separated only by special tokens.
    const bool told_apart =
        !packed_ && batch.segments.defined() && segments_->options.num_embeddings() > 1;
    x = x.add(told_apart ? segments_->forward(own_positions(context, batch.segments, 1, 0))
              : segments_->is_adapted() ? segments_->forward(at::zeros_like(tokens))
                                        : segments_->weight.select(0, 0));
  }
  if (positions_) {
    const at::Tensor all = positions_of(batch.inputs, texts);
    x = x.add(positions_->forward(own_positions(context, all, all.dim() - 1, 0)));
  }
  x = at::dropout(norm_->forward(x), dropout_, is_training());
  return projection_ ? projection_->forward(x) : x;
}

at::Tensor BertEncoder::forward(const Batch& batch, TokenPositions read,
                                const ContextRanksPtr& context) {
  const at::Tensor& tokens = batch.inputs;
  BlockDiagonalMask texts;
  if (packed_ && batch.segments.defined()) texts = whole_text_mask(batch.segments);
  at::Tensor x =
      chain_input(*layers_.front(), [&] { return embedded(batch, texts, context.get()); });
  const VisibleKeys keys =
      texts.mask.defined()
          ? VisibleKeys{.mask = texts.mask}
          : visible_in_lengths(context, batch.lengths, tokens.size(1), tokens.options());
  const RelativePass relative = relative_pass_of(tokens.size(1));
  for (const auto& layer : layers_) {
    const bool is_last = layer == layers_.back() && !context;
    x = run_block(*layer, x, keys, is_last ? positions_to_compute(read) : TokenPositions::kAll,
                  relative);
  }
  return x;
}

namespace {

constexpr double kBertWeightDeviation = 0.02;

void initialise(BertPart& net) {
  const torch::NoGradGuard no_grad;
  for (const auto& module : net.modules(false)) {
    if (auto* linear = module->as<torch::nn::Linear>()) {
      torch::nn::init::normal_(linear->weight, 0.0, kBertWeightDeviation);
      torch::nn::init::zeros_(linear->bias);
    } else if (auto* embedding = module->as<torch::nn::Embedding>()) {
      torch::nn::init::normal_(embedding->weight, 0.0, kBertWeightDeviation);
      const auto pad = embedding->options.padding_idx();
      if (pad) embedding->weight[*pad].zero_();
    }
  }
}

}  // namespace

BertModel::BertModel(const BertKind& kind, const BertOptions& given, const ModelContext& context)
    : kind_(kind),
      head_for_(given.head.value_or(encoder_head_for(context.data))),
      packed_(is_packed(context.data)),
      num_heads_(given.num_heads),
      ranks_(context.tensor),
      attention_dropout_(given.attention_dropout.value_or(given.dropout)),
      token_activation_(kind.token_activation.value_or(given.activation)),
      head_dropout_(given.head_dropout.value_or(given.dropout)),
      classifier_task_(classifier_task(given.problem_type, context.data)) {
  const DataShape& data = context.data;
  require_tokens(kind.model, data);
  const int64_t length = data.input.empty() ? 0 : data.input[0];
  const int64_t vocab = sufficient_size({kind.model, "vocab_size", given.vocab_size, data.vocab});
  longest_ = sufficient_size({kind.model, "max_seq_len", given.max_seq_len, length});
  BertOptions options = given;
  const bool has_own_pad = kind.skips_pads || kind.pads_embedding;
  const int64_t usual_pad = data.padding ? data.padding->input : 0;  // transformers': token 0
  if (!has_own_pad) options.pad = given.text_pad.value_or(usual_pad);
  if (options.pad >= vocab) {
    throw Error(ExitCode::kRecipe,
                text("'pad' of the model '{}' is {}, but token ids are below {}", kind.model,
                     options.pad, vocab),
                "set the tokenizer's padding token");
  }
  encoder_ = net_->register_module(
      kind.base, std::make_shared<BertEncoder>(kind, options, vocab, longest_, context.tensor));
  if (packed_) encoder_->separate_texts();
  add_head(options, vocab, data);
  initialise(*net_);
}

void BertModel::add_head(const BertOptions& options, int64_t vocab, const DataShape& data) {
  const int64_t width = options.hidden_size;
  if (head_for_ == EncoderHead::kClasses) {
    const int64_t classes =
        equal_size({kind_.model, "num_classes", options.num_classes, output_count(data)});
    pooled_ = bert_linear(*net_, kind_.pooled, width, width);
    classifier_ = bert_linear(*net_, kind_.classifier, width, classes);
    return;
  }
  if (head_for_ == EncoderHead::kSpan) {
    span_ = bert_linear(*net_, kBertSpan, width, kSpanOutputs);
    head_dropout_ = kind_.drops_before_span ? options.span_dropout.value_or(options.dropout) : 0;
    return;
  }
  if (head_for_ == EncoderHead::kLabels) {
    const int64_t labels =
        equal_size({kind_.model, "num_classes", options.num_classes, data.classes});
    labels_ = bert_linear(*net_, kBertLabels, width, labels);
    if (!kind_.labels_drop_alike) head_dropout_ = options.dropout;
    return;
  }
  token_bias_ = bert_bias(*net_, kind_.token_bias, vocab);
  transform_ = bert_linear(*net_, kind_.transform, width, options.embedded());
  transform_norm_ = bert_embedding_norm(*net_, kind_.transform_norm, options);
}

const char* BertModel::default_task() const {
  return task_of(head_for_, classifier_task_);
}

TextOutput BertModel::text_output() const {
  return text_output_of(head_for_);
}

at::Tensor BertModel::tied_weight() {
  return head_for_ == EncoderHead::kTokens ? encoder_->word_embedding() : at::Tensor();
}

at::Tensor BertModel::dropped(const at::Tensor& x) const {
  return at::dropout(x, head_dropout_, net_->is_training());
}

at::Tensor BertModel::classes_of(const at::Tensor& first) {
  const at::Tensor pooled = pooled_->forward(kind_.drops_before_pooling ? dropped(first) : first);
  return classifier_->forward(dropped(activate(kind_.pooled_activation, pooled)));
}

at::Tensor BertModel::features_of(const at::Tensor& hidden) {
  const at::Tensor y = activate(token_activation_, transform_->forward(hidden));
  return enter(ranks_, transform_norm_->forward(y));
}

std::unique_ptr<RandomScope> BertModel::stream_of(const ContextRanksPtr& context,
                                                  const Batch& batch) const {
  return net_->is_training() ? own_random_stream(context, batch.inputs.device()) : nullptr;
}

at::Tensor BertModel::token_features(const Batch& batch) {
  const ContextRanksPtr context = dividing(context_);
  const auto stream = stream_of(context, batch);
  return features_of(encoder_->forward(batch, TokenPositions::kAll, context));
}

at::Tensor BertModel::forward_batch(const Batch& batch) {
  const ContextRanksPtr context = dividing(context_);
  auto stream = stream_of(context, batch);
  const TokenPositions read = classifier_ ? TokenPositions::kFirst : TokenPositions::kAll;
  const at::Tensor hidden = encoder_->forward(batch, read, context);
  if (classifier_) {
    stream.reset();  // all ranks drop the same
    return classes_of(context ? context->first_position(hidden) : hidden.select(1, 0));
  }
  if (labels_) return labels_->forward(dropped(hidden));
  if (span_) return span_->forward(dropped(hidden));
  const at::Tensor scores =
      at::linear(features_of(hidden), encoder_->word_embedding(), token_bias_);
  return ranks_ ? ranks_->gather_features(scores, vocabulary().size) : scores;
}

void BertModel::divide_sequences(ContextRanksPtr ranks) {
  if (span_) {
    throw Error(ExitCode::kRecipe, "'cp' and 'sp' do not support the head for a span",
                "leave 'cp' and 'sp' out");
  }
  if (packed_) {
    throw Error(ExitCode::kRecipe, "'cp' and 'sp' do not support packed texts of encoders",
                "leave 'cp' and 'sp' out, or 'pack' of the data");
  }
  check_divides_sequences(*ranks, num_heads_, num_heads_, {.dropout = attention_dropout_});
  context_ = std::move(ranks);
}

/// As of transformers' plans of decoders: heads and the MLP's inner features, and the rows of the
/// vocabulary. The heads for classes and labels are whole.
TensorPlan BertModel::tensor_plan(int64_t ranks) const {
  using enum TensorStyle;
  check_divides("num_heads", num_heads_, ranks);
  const std::string base = kind_.base, layers = base + "." + kind_.blocks + ".*.";
  TensorPlan plan = {{base + ".embeddings.word_embeddings", kEmbeddingRowwise}};
  for (const char* const layer : {kind_.query, kind_.key, kind_.value, kind_.inner}) {
    plan.push_back({layers + layer, kColwise});
  }
  for (const char* const layer : {kind_.attended, kind_.outer}) {
    plan.push_back({layers + layer, kRowwise});
  }
  if (!token_bias_.defined()) return plan;
  const std::string bias = kind_.token_bias;
  plan.push_back({bias.substr(0, bias.rfind('.')), kColwise});  // with the embedding as its weight
  return plan;
}

}  // namespace accel
