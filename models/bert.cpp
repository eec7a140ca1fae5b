// BERT: a bidirectional transformer with a head for classes or for hidden tokens. Parameters are
// named as in Hugging Face's BERT.
#include <ATen/ops/arange.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "models/activations.h"
#include "models/adapted_linear.h"
#include "models/block.h"
#include "models/hf_family.h"
#include "models/sizes.h"
#include "models/transformer_schema.h"

namespace accel {
namespace {
enum class BertHead { kClasses, kTokens };
}  // namespace

template <>
struct EnumNames<BertHead> {
  static constexpr std::pair<BertHead, const char*> kValues[] = {{BertHead::kClasses, "classes"},
                                                                 {BertHead::kTokens, "tokens"}};
};

namespace {

struct BertOptions {
  Auto<int64_t> vocab;
  Auto<int64_t> context;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128;
  Auto<int64_t> hidden;
  int64_t segments = 2;
  Auto<BertHead> head;
  Auto<int64_t> classes;
  HfActivation activation = HfActivation::kGelu;
  double epsilon = 1e-12;
  double dropout = 0.1;
  Auto<double> attention_dropout;
  Auto<double> head_dropout;
  LoraOptions lora;
  FilePath weights;
};

constexpr double kBertWeightDeviation = 0.02;

/// A module whose parts are registered by those who make it.
using BertPart = torch::nn::Module;

AdaptedLinear bert_linear(BertPart& in, const char* name, int64_t inputs, int64_t outputs) {
  return in.register_module(name, AdaptedLinear(inputs, outputs));
}

torch::nn::LayerNorm bert_norm(BertPart& in, const BertOptions& options) {
  const auto norm = torch::nn::LayerNormOptions({options.width}).eps(options.epsilon);
  return in.register_module("LayerNorm", torch::nn::LayerNorm(norm));
}

std::shared_ptr<BertPart> bert_part(BertPart& in, const char* name) {
  return in.register_module(name, std::make_shared<BertPart>());
}

/// A linear map back to the width, added to what went around it, and normalised.
class BertOutput final : public torch::nn::Module {
 public:
  BertOutput(const BertOptions& options, int64_t inputs)
      : dense_(bert_linear(*this, "dense", inputs, options.width)),
        norm_(bert_norm(*this, options)),
        dropout_(options.dropout) {}

  at::Tensor forward(const at::Tensor& x, const at::Tensor& around) {
    return norm_->forward(at::dropout(dense_->forward(x), dropout_, is_training()).add(around));
  }

 private:
  AdaptedLinear dense_;
  torch::nn::LayerNorm norm_;
  double dropout_;
};

class BertLayer final : public Block {
 public:
  explicit BertLayer(const BertOptions& options)
      : heads_(options.heads),
        activation_(options.activation),
        attention_dropout_(options.attention_dropout.value_or(options.dropout)) {
    const int64_t width = options.width, hidden = options.hidden.value_or(4 * width);
    const auto attention = bert_part(*this, "attention");
    const auto self = bert_part(*attention, "self");
    query_ = bert_linear(*self, "query", width, width);
    key_ = bert_linear(*self, "key", width, width);
    value_ = bert_linear(*self, "value", width, width);
    attended_ = attention->register_module("output", std::make_shared<BertOutput>(options, width));
    dense_ = bert_linear(*bert_part(*this, "intermediate"), "dense", width, hidden);
    output_ = register_module("output", std::make_shared<BertOutput>(options, hidden));
  }

  at::Tensor forward(const at::Tensor& x, const std::optional<at::Tensor>& mask) {
    const at::Tensor y = at::scaled_dot_product_attention(
        by_head(query_->forward(x)), by_head(key_->forward(x)), by_head(value_->forward(x)), mask,
        is_training() ? attention_dropout_ : 0.0);
    const at::Tensor seen = attended_->forward(y.transpose(1, 2).reshape_as(x), x);
    return output_->forward(activate(activation_, dense_->forward(seen)), seen);
  }

 private:
  /// [batch, length, width] to [batch, heads, length, width / heads]
  at::Tensor by_head(const at::Tensor& x) const {
    return x.view({x.size(0), x.size(1), heads_, x.size(2) / heads_}).transpose(1, 2);
  }

  int64_t heads_;
  HfActivation activation_;
  double attention_dropout_;
  AdaptedLinear query_{nullptr}, key_{nullptr}, value_{nullptr}, dense_{nullptr};
  std::shared_ptr<BertOutput> attended_, output_;
};

class BertEncoder final : public torch::nn::Module {
 public:
  BertEncoder(int64_t vocab, int64_t context, const BertOptions& options)
      : dropout_(options.dropout) {
    const auto embeddings = bert_part(*this, "embeddings");
    const auto table = [&](const char* name, int64_t rows) {
      return embeddings->register_module(name, torch::nn::Embedding(rows, options.width));
    };
    words_ = table("word_embeddings", vocab);
    positions_ = table("position_embeddings", context);
    segments_ = table("token_type_embeddings", options.segments);
    norm_ = bert_norm(*embeddings, options);
    torch::nn::ModuleList list;
    for (int64_t i = 0; i < options.layers; ++i) {
      layers_.push_back(std::make_shared<BertLayer>(options));
      list->push_back(layers_.back());
    }
    bert_part(*this, "encoder")->register_module("layer", list);
  }

  /// [batch, length, width] of a batch of tokens.
  at::Tensor forward(const Batch& batch) {
    const at::Tensor& tokens = batch.inputs;
    const at::Tensor places = at::arange(tokens.size(1), tokens.options());
    at::Tensor x = words_->forward(tokens);
    x = x.add(batch.segments.defined() ? segments_->forward(batch.segments)
                                       : segments_->weight.select(0, 0));
    x = norm_->forward(x.add(positions_->forward(places)));
    x = at::dropout(x, dropout_, is_training());
    std::optional<at::Tensor> mask;
    if (batch.lengths.defined()) {
      // [batch, 1, 1, length]: which tokens may be seen, from wherever.
      mask = places.unsqueeze(0).lt(batch.lengths.unsqueeze(1)).unsqueeze(1).unsqueeze(1);
    }
    for (const auto& layer : layers_) x = run_block(*layer, x, mask);
    return x;
  }

  const at::Tensor& word_embedding() const { return words_->weight; }

 private:
  torch::nn::Embedding words_{nullptr}, positions_{nullptr}, segments_{nullptr};
  torch::nn::LayerNorm norm_{nullptr};
  std::vector<std::shared_ptr<BertLayer>> layers_;
  double dropout_;
};

class Bert final : public BatchModel {
 public:
  static constexpr auto kName = "bert";
  static constexpr auto kSummary =
      "A BERT encoder of texts with a head for classes or for hidden tokens.";
  static constexpr bool kGenerates = false;

  static Schema<BertOptions> schema();
  static bool reads(const std::string& model_type) { return model_type == "bert"; }
  static BertOptions from_config(HfConfig& config);
  static void to_config(const BertOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config);
  static HfNames names(const BertOptions&) {
    return {"bert.",
            {},
            {"*.position_ids", "cls.*", "classifier.*", "bert.pooler.*"},
            {"cls.*", "classifier.*", "bert.pooler.*"}};
  }

  Bert(const BertOptions& options, const ModelContext& context);

  at::Tensor forward_batch(const Batch& batch) override;
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override {
    return classifier_ ? (numeric_ ? "regression" : "classification") : "masked_lm";
  }

 private:
  void add_head(const BertOptions& options, int64_t vocab, const DataShape& data);

  std::shared_ptr<BertPart> net_ = std::make_shared<BertPart>();
  std::shared_ptr<BertEncoder> bert_;
  AdaptedLinear pooler_{nullptr}, classifier_{nullptr};  ///< of the head for classes
  AdaptedLinear transform_{nullptr};                     ///< of the head for tokens
  torch::nn::LayerNorm transform_norm_{nullptr};
  at::Tensor token_bias_;
  HfActivation activation_;
  double head_dropout_;
  bool numeric_;
};

Bert::Bert(const BertOptions& options, const ModelContext& context)
    : activation_(options.activation),
      head_dropout_(options.head_dropout.value_or(options.dropout)),
      numeric_(has_numeric_targets(context.data)) {
  const DataShape& data = context.data;
  want_tokens(kName, data);
  const int64_t length = data.input.empty() ? 0 : data.input[0];
  const int64_t vocab = sufficient_size({kName, "vocab", options.vocab, data.vocab});
  const int64_t longest = sufficient_size({kName, "context", options.context, length});
  sufficient_size({kName, "segments", {options.segments}, data.segments});
  bert_ = net_->register_module("bert", std::make_shared<BertEncoder>(vocab, longest, options));
  add_head(options, vocab, data);
  for (const auto& module : net_->modules(false)) {
    if (auto* linear = module->as<torch::nn::Linear>()) {
      torch::nn::init::normal_(linear->weight, 0.0, kBertWeightDeviation);
      torch::nn::init::zeros_(linear->bias);
    } else if (auto* embedding = module->as<torch::nn::Embedding>()) {
      torch::nn::init::normal_(embedding->weight, 0.0, kBertWeightDeviation);
    }
  }
}

void Bert::add_head(const BertOptions& options, int64_t vocab, const DataShape& data) {
  const bool one_each = !data.input.empty() && data.target == data.input;
  if (options.head.value_or(one_each ? BertHead::kTokens : BertHead::kClasses) ==
      BertHead::kClasses) {
    const int64_t classes = equal_size({kName, "classes", options.classes, output_count(data)});
    pooler_ = bert_linear(*bert_part(*bert_, "pooler"), "dense", options.width, options.width);
    classifier_ = bert_linear(*net_, "classifier", options.width, classes);
    return;
  }
  const auto predictions = bert_part(*bert_part(*net_, "cls"), "predictions");
  token_bias_ = predictions->register_parameter("bias", at::zeros({vocab}));
  const auto transform = bert_part(*predictions, "transform");
  transform_ = bert_linear(*transform, "dense", options.width, options.width);
  transform_norm_ = bert_norm(*transform, options);
}

at::Tensor Bert::forward_batch(const Batch& batch) {
  const at::Tensor hidden = bert_->forward(batch);
  if (classifier_) {
    const at::Tensor first = pooler_->forward(hidden.select(1, 0)).tanh();
    return classifier_->forward(at::dropout(first, head_dropout_, net_->is_training()));
  }
  const at::Tensor y = activate(activation_, transform_->forward(hidden));
  return at::linear(transform_norm_->forward(y), bert_->word_embedding(), token_bias_);
}

Schema<BertOptions> Bert::schema() {
  const auto count = at_least<int64_t>(1);
  const auto chance = within(0.0, 1.0);
  auto sizes =
      with_widths(transformer_schema<BertOptions>("Longest sequence it can see."),
                  "Numbers per token within a block's MLP; auto: four times the width.")
          .field("segments", &BertOptions::segments, "Texts that a sequence may be made of.", count)
          .on_resume(Change::kImpossible)
          .field("head", &BertOptions::head,
                 "For classes (or numbers) or for tokens; auto: what the targets are.")
          .on_resume(Change::kImpossible)
          .field("classes", &BertOptions::classes, "Labels to tell apart, or numbers to predict.",
                 if_given<Auto>(count))
          .on_resume(Change::kImpossible)
          .field("activation", &BertOptions::activation, "Within the MLP and the token head.")
          .on_resume(Change::kImpossible)
          .field("epsilon", &BertOptions::epsilon, "Added to a norm's variance.", more_than(0.0))
          .on_resume(Change::kImpossible);
  return with_weights(
      std::move(sizes)
          .field("dropout", &BertOptions::dropout,
                 "Chance of dropping an embedding, an attention weight or a block's output.",
                 chance)
          .field("attention_dropout", &BertOptions::attention_dropout,
                 "That of an attention weight, where it is another.", if_given<Auto>(chance))
          .field("head_dropout", &BertOptions::head_dropout,
                 "That before the head for classes, where it is another.", if_given<Auto>(chance))
          .check([](const BertOptions& options, const Node& node, Reading& reading) {
            check_multiple({"width", options.width}, {"heads", options.heads}, node, reading);
          }));
}

BertOptions Bert::from_config(HfConfig& config) {
  constexpr auto kNotBuilt = "this model does not do";
  config.want("position_embedding_type", "absolute", kNotBuilt);
  config.want("is_decoder", false, kNotBuilt);
  config.want("add_cross_attention", false, kNotBuilt);
  BertOptions options;
  options.vocab = {config.integer("vocab_size")};
  options.context = {config.integer("max_position_embeddings", 512)};
  options.layers = config.integer("num_hidden_layers");
  options.heads = config.integer("num_attention_heads");
  options.width = config.integer("hidden_size");
  options.hidden = {config.integer("intermediate_size")};
  options.segments = config.integer("type_vocab_size", 2);
  options.activation = activation_in(config, "hidden_act", HfActivation::kGelu);
  options.epsilon = config.number("layer_norm_eps", 1e-12);
  options.dropout = config.number("hidden_dropout_prob", 0.1);
  options.attention_dropout = {config.number("attention_probs_dropout_prob", 0.1)};
  options.head_dropout = {config.number("classifier_dropout", options.dropout)};
  if (config.architecture() == "BertForSequenceClassification") {
    options.classes = {label_count(config)};
  }
  return options;
}

void Bert::to_config(const BertOptions& options, const WeightShapes& shapes,
                     nlohmann::json& config) {
  config["model_type"] = "bert";
  config["vocab_size"] = shapes.at("bert.embeddings.word_embeddings.weight").at(0);
  config["max_position_embeddings"] = shapes.at("bert.embeddings.position_embeddings.weight").at(0);
  config["num_hidden_layers"] = options.layers;
  config["num_attention_heads"] = options.heads;
  config["hidden_size"] = options.width;
  config["intermediate_size"] = options.hidden.value_or(4 * options.width);
  config["type_vocab_size"] = options.segments;
  config["hidden_act"] = config_name(options.activation);
  config["layer_norm_eps"] = options.epsilon;
  config["hidden_dropout_prob"] = options.dropout;
  config["attention_probs_dropout_prob"] = options.attention_dropout.value_or(options.dropout);
  config["classifier_dropout"] = options.head_dropout.value_or(options.dropout);
  const auto classifier = shapes.find("classifier.weight");
  config["architectures"] = {classifier == shapes.end() ? "BertForMaskedLM"
                                                        : "BertForSequenceClassification"};
  if (classifier != shapes.end()) write_labels(classifier->second.at(0), config);
}

const RegisterPretrained<Bert> bert;

}  // namespace
}  // namespace accel
