#include "models/bert_model.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/zeros.h>
#include <torch/nn/init.h>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "models/hf/hf_options.h"
#include "models/hf/hf_sizes.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/self_attention.h"
#include "models/layers/sizes.h"
#include "models/layers/transformer_schema.h"

namespace accel {

Schema<BertOptions> bert_sizes(const BertKind& kind) {
  const auto count = at_least<int64_t>(1);
  auto sizes = with_sizes(transformer_schema<BertOptions>("Maximum sequence length."),
                          "Features inside a block's MLP; auto: four times the hidden size.");
  if (kind.projection) {
    std::move(sizes)
        .field("embedding_size", &BertOptions::embedding_size,
               "Features of an embedding, which a linear layer projects to the hidden size; auto: "
               "the hidden size, without such a layer.",
               if_given<Auto>(count))
        .on_resume(Change::kImpossible);
  }
  if (kind.has_segments) {
    std::move(sizes)  // NOLINT(bugprone-use-after-move): field() adds in place
        .field("segments", &BertOptions::segments, "Number of token types (texts per sequence).",
               count)
        .on_resume(Change::kImpossible);
  }
  auto heads = std::move(sizes)  // NOLINT(bugprone-use-after-move): field() adds in place
                   .field("head", &BertOptions::head,
                          "classes (or numbers) of the text, masked tokens, labels of tokens, or "
                          "the span of an answer; auto: by the targets.")
                   .on_resume(Change::kImpossible);
  return with_num_classes(std::move(heads), "Number of classes, or of values to predict.", 1)
      .field("activation", &BertOptions::activation,
             kind.token_activation ? "Within the MLP." : "Within the MLP and the token head.")
      .on_resume(Change::kImpossible);
}

Schema<BertOptions> with_text_pad(Schema<BertOptions> schema) {
  return std::move(schema)
      .field("pad", &BertOptions::text_pad,
             "The padding token, whose embedding is not trained; -1: none. auto: as the folder, "
             "else that of the data.",
             if_given<Auto>(at_least<int64_t>(-1)))
      .on_resume(Change::kImpossible);
}

Auto<int64_t> text_pad_in(HfConfig& config) {
  return {config.integer("pad_token_id", config.values().contains("pad_token_id") ? -1 : 0)};
}

void write_text_pad(const BertOptions& options, nlohmann::json& config) {
  if (!options.text_pad) return;
  const int64_t pad = *options.text_pad;
  config["pad_token_id"] = pad < 0 ? nlohmann::json() : nlohmann::json(pad);
}

Schema<BertOptions> with_bert_dropout(const BertKind& kind, Schema<BertOptions> schema) {
  const auto chance = within(0.0, 1.0);
  if (kind.drops_before_span) {
    std::move(schema).field("span_dropout", &BertOptions::span_dropout,
                            "Dropout before the head for a span; auto: dropout.",
                            if_given<Auto>(chance));
  }
  return with_weights(
      with_problem_type(std::move(schema))  // NOLINT(bugprone-use-after-move): added in place
          .field("dropout", &BertOptions::dropout,
                 "Dropout of embeddings, attention weights and block outputs.", chance)
          .field("attention_dropout", &BertOptions::attention_dropout,
                 "Dropout of attention weights; auto: dropout.", if_given<Auto>(chance))
          .field("head_dropout", &BertOptions::head_dropout,
                 kind.labels_drop_alike
                     ? "Dropout before the head for classes or labels; auto: dropout."
                     : "Dropout before the head for classes; auto: dropout.",
                 if_given<Auto>(chance))
          .check([](const BertOptions& options, const Node& node, Reading& reading) {
            check_multiple({"hidden_size", options.hidden_size}, {"num_heads", options.num_heads},
                           node, reading);
          }));
}

Auto<int64_t> bert_classes_in(const HfConfig& config) {
  const std::optional<EncoderHead> head = encoder_head_in(config.architecture());
  const bool named = head == EncoderHead::kClasses || head == EncoderHead::kLabels;
  return named ? Auto<int64_t>{label_count(config)} : Auto<int64_t>{};
}

BertOptions bert_options_in(HfConfig& config) {
  constexpr auto kNotBuilt = "this model does not do";
  config.want("position_embedding_type", "absolute", kNotBuilt);
  config.want("is_decoder", false, kNotBuilt);
  config.want("add_cross_attention", false, kNotBuilt);
  config.want("tie_word_embeddings", true, kNotBuilt);
  // Google's own configs; transformers does not read them.
  config.ignore({"directionality", "pooler_fc_size", "pooler_num_attention_heads",
                 "pooler_num_fc_layers", "pooler_size_per_head", "pooler_type"});
  BertOptions options;
  options.vocab_size = {config.integer("vocab_size")};
  options.max_seq_len = {config.integer("max_position_embeddings", 512)};
  read_hf_sizes(config, {}, options);
  options.segments = config.integer("type_vocab_size", 2);
  options.dropout = config.number("hidden_dropout_prob", 0.1);
  options.attention_dropout = {config.number("attention_probs_dropout_prob", 0.1)};
  options.head_dropout = {config.number("classifier_dropout", options.dropout)};
  options.num_classes = bert_classes_in(config);
  options.problem_type = problem_type_in(config);
  return options;
}

void write_bert_options(const BertOptions& options, nlohmann::json& config) {
  write_hf_sizes(options, options.intermediate_size.value_or(4 * options.hidden_size), {}, config);
  config["type_vocab_size"] = options.segments;
  config["hidden_dropout_prob"] = options.dropout;
  config["attention_probs_dropout_prob"] = options.attention_dropout.value_or(options.dropout);
  config["classifier_dropout"] = options.head_dropout.value_or(options.dropout);
}

void write_bert_head(const BertKind& kind, const std::string& prefix, const WeightShapes& shapes,
                     nlohmann::json& config) {
  const std::string tables = std::string(kind.base).append(".embeddings.");
  config["vocab_size"] = shapes.at(tables + "word_embeddings.weight").at(0);
  const auto positions = shapes.find(tables + "position_embeddings.weight");
  if (positions != shapes.end()) config["max_position_embeddings"] = positions->second.at(0);
  const auto outputs = [&](const char* layer) -> std::optional<int64_t> {
    const auto found = shapes.find(std::string(layer).append(".weight"));
    return found == shapes.end() ? std::nullopt : std::optional(found->second.at(0));
  };
  const std::optional<int64_t> labels = outputs(kBertLabels);
  const EncoderHead head = outputs(kind.pooled) ? EncoderHead::kClasses
                           : labels             ? EncoderHead::kLabels
                           : outputs(kBertSpan) ? EncoderHead::kSpan
                                                : EncoderHead::kTokens;
  config["architectures"] = {prefix + architecture_suffix(head)};
  if (head == EncoderHead::kClasses) write_labels(*outputs(kind.classifier), config);
  if (head == EncoderHead::kLabels) write_labels(*labels, config);
}

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
  const at::Tensor inner = activate(activation_, *inner_, enter(ranks_, seen));
  return outer_norm_->forward(dropped(outer_->forward(inner)).add(seen));
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

at::Tensor BertEncoder::positions_of(const at::Tensor& tokens) const {
  if (!skips_pads_) return at::arange(tokens.size(1), tokens.options());
  const at::Tensor counted = tokens.ne(*pad_).to(tokens.scalar_type());
  return counted.cumsum(1).mul(counted).add(*pad_);
}

at::Tensor BertEncoder::embedded(const Batch& batch, const ContextRanks* context) {
  const at::Tensor tokens = own_positions(context, batch.inputs, 1, 0);
  at::Tensor x = words_->adapted(
      vocabulary_embedding(vocabulary(), words_->weight, tokens, /*tied=*/false, pad_), tokens);
  if (segments_) {
    // With a single token type, texts of a pair are separated only by special tokens.
    const bool told_apart = batch.segments.defined() && segments_->options.num_embeddings() > 1;
    x = x.add(told_apart ? segments_->forward(own_positions(context, batch.segments, 1, 0))
              : segments_->is_adapted() ? segments_->forward(at::zeros_like(tokens))
                                        : segments_->weight.select(0, 0));
  }
  if (positions_) {
    const at::Tensor all = positions_of(batch.inputs);
    x = x.add(positions_->forward(own_positions(context, all, all.dim() - 1, 0)));
  }
  x = at::dropout(norm_->forward(x), dropout_, is_training());
  return projection_ ? projection_->forward(x) : x;
}

at::Tensor BertEncoder::forward(const Batch& batch, TokenPositions read,
                                const ContextRanksPtr& context) {
  const at::Tensor& tokens = batch.inputs;
  at::Tensor x = chain_input(*layers_.front(), [&] { return embedded(batch, context.get()); });
  const VisibleKeys keys =
      visible_in_lengths(context, batch.lengths, tokens.size(1), tokens.options());
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
  check_divides_sequences(*ranks, num_heads_, num_heads_, attention_dropout_);
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
