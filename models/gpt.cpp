// GPT-2: a causal transformer with learned positions whose head is its token embedding, or one of
// its own. Parameters are named as in Hugging Face's GPT-2, with linear weights stored [out, in] as
// nn.Linear does.
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "core/packed_texts.h"
#include "models/activations.h"
#include "models/adapted_linear.h"
#include "models/block.h"
#include "models/decoding.h"
#include "models/fitted_model.h"
#include "models/hf_family.h"
#include "models/sizes.h"
#include "models/texts_apart.h"
#include "models/tied_embedding.h"
#include "models/transformer_schema.h"

namespace accel {
namespace {

struct GptOptions {
  Auto<int64_t> vocab;
  Auto<int64_t> context;
  int64_t layers = 4;
  int64_t heads = 4;
  int64_t width = 128;
  Auto<int64_t> hidden;
  HfActivation activation = HfActivation::kGeluTanh;
  double epsilon = 1e-5;
  bool tied = true;
  double dropout = 0.0;
  Auto<double> attention_dropout;
  Auto<double> embedding_dropout;
  LoraOptions lora;
  FilePath weights;
};

constexpr double kGptWeightDeviation = 0.02;

class GptAttention final : public torch::nn::Module {
 public:
  explicit GptAttention(const GptOptions& options)
      : c_attn_(register_module("c_attn", AdaptedLinear(options.width, 3 * options.width))),
        c_proj_(register_module("c_proj", AdaptedLinear(options.width, options.width))),
        heads_(options.heads),
        dropout_(options.dropout),
        attention_dropout_(options.attention_dropout.value_or(options.dropout)) {}

  /// `mask`: which tokens may be seen; undefined: those before each.
  at::Tensor forward(const at::Tensor& x, LayerCache* seen, const at::Tensor& mask) {
    const int64_t width = x.size(2);
    const std::vector<at::Tensor> parts = c_attn_->forward(x).split(width, 2);
    const at::Tensor query = by_head(parts[0]), key = by_head(parts[1]), value = by_head(parts[2]);
    at::Tensor y = seen ? seen->attend(query, key, value)
                        : at::scaled_dot_product_attention(query, key, value, given(mask),
                                                           is_training() ? attention_dropout_ : 0.0,
                                                           /*is_causal=*/!mask.defined());
    y = y.transpose(1, 2).reshape_as(x);
    return at::dropout(c_proj_->forward(y), dropout_, is_training());
  }

  AdaptedLinear projection() { return c_proj_; }

 private:
  /// [batch, context, width] to [batch, heads, context, width / heads]
  at::Tensor by_head(const at::Tensor& x) const {
    return x.view({x.size(0), x.size(1), heads_, x.size(2) / heads_}).transpose(1, 2);
  }

  AdaptedLinear c_attn_, c_proj_;
  int64_t heads_;
  double dropout_, attention_dropout_;
};

class GptMlp final : public torch::nn::Module {
 public:
  GptMlp(const GptOptions& options, int64_t hidden)
      : c_fc_(register_module("c_fc", AdaptedLinear(options.width, hidden))),
        c_proj_(register_module("c_proj", AdaptedLinear(hidden, options.width))),
        activation_(options.activation),
        dropout_(options.dropout) {}

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor y = c_proj_->forward(activate(activation_, c_fc_->forward(x)));
    return at::dropout(y, dropout_, is_training());
  }

  AdaptedLinear projection() { return c_proj_; }

 private:
  AdaptedLinear c_fc_, c_proj_;
  HfActivation activation_;
  double dropout_;
};

torch::nn::LayerNorm gpt_norm(const GptOptions& options) {
  return torch::nn::LayerNorm(torch::nn::LayerNormOptions({options.width}).eps(options.epsilon));
}

int64_t gpt_hidden(const GptOptions& options) {
  return options.hidden.value_or(4 * options.width);
}

class GptBlock final : public Block {
 public:
  explicit GptBlock(const GptOptions& options)
      : ln_1_(register_module("ln_1", gpt_norm(options))),
        attn_(register_module("attn", std::make_shared<GptAttention>(options))),
        ln_2_(register_module("ln_2", gpt_norm(options))),
        mlp_(register_module("mlp", std::make_shared<GptMlp>(options, gpt_hidden(options)))) {}

  at::Tensor forward(const at::Tensor& inputs, LayerCache* seen, const at::Tensor& mask) {
    const at::Tensor x = inputs.add(attn_->forward(ln_1_->forward(inputs), seen, mask));
    return x.add(mlp_->forward(ln_2_->forward(x)));
  }

  std::vector<AdaptedLinear> projections() { return {attn_->projection(), mlp_->projection()}; }

 private:
  torch::nn::LayerNorm ln_1_;
  std::shared_ptr<GptAttention> attn_;
  torch::nn::LayerNorm ln_2_;
  std::shared_ptr<GptMlp> mlp_;
};

class GptTransformer final : public torch::nn::Module {
 public:
  GptTransformer(int64_t vocab, int64_t context, const GptOptions& options)
      : wte_(register_module("wte", torch::nn::Embedding(vocab, options.width))),
        wpe_(register_module("wpe", torch::nn::Embedding(context, options.width))),
        is_tied_(options.tied),
        dropout_(options.embedding_dropout.value_or(options.dropout)) {
    torch::nn::ModuleList list;
    for (int64_t i = 0; i < options.layers; ++i) {
      blocks_.push_back(std::make_shared<GptBlock>(options));
      list->push_back(blocks_.back());
    }
    register_module("h", list);
    ln_f_ = register_module("ln_f", gpt_norm(options));
    initialise();
  }

  /// `seen`: what came before `tokens`; null: nothing, and nothing is kept.
  at::Tensor forward(const at::Tensor& tokens, KeyValueCache* seen) {
    const int64_t first = seen ? seen->length() : 0;
    return run(tokens, at::arange(first, first + tokens.size(1), tokens.options()), seen, {});
  }
  at::Tensor forward_apart(const at::Tensor& tokens, const TextsApart& apart) {
    return run(tokens, apart.positions, nullptr, apart.mask);
  }

  const at::Tensor& token_embedding() const { return wte_->weight; }

 private:
  at::Tensor run(const at::Tensor& tokens, const at::Tensor& positions, KeyValueCache* seen,
                 const at::Tensor& mask) {
    const at::Tensor words =
        is_tied_ ? tied_embedding(wte_->weight, tokens) : wte_->forward(tokens);
    at::Tensor x = words.add(wpe_->forward(positions));
    x = at::dropout(x, dropout_, is_training());
    for (size_t i = 0; i < blocks_.size(); ++i) {
      x = run_block(*blocks_[i], x, seen ? &seen->layer(i) : nullptr, mask);
    }
    return ln_f_->forward(x);
  }

  void initialise() {
    for (const auto& module : modules(false)) {
      if (auto* linear = module->as<torch::nn::Linear>()) {
        torch::nn::init::normal_(linear->weight, 0.0, kGptWeightDeviation);
        torch::nn::init::zeros_(linear->bias);
      } else if (auto* embedding = module->as<torch::nn::Embedding>()) {
        torch::nn::init::normal_(embedding->weight, 0.0, kGptWeightDeviation);
      }
    }
    // Every block adds to the residual stream twice: keep its variance independent of the depth.
    const double deviation =
        kGptWeightDeviation / std::sqrt(2.0 * static_cast<double>(blocks_.size()));
    for (const auto& block : blocks_) {
      for (auto& layer : block->projections()) {
        torch::nn::init::normal_(layer->weight, 0.0, deviation);
      }
    }
  }

  torch::nn::Embedding wte_, wpe_;
  std::vector<std::shared_ptr<GptBlock>> blocks_;
  torch::nn::LayerNorm ln_f_{nullptr};
  bool is_tied_;
  double dropout_;
};

class Gpt final : public LanguageModel,
                  public CachedDecoder,
                  public KeepsTextsApart,
                  public FittedModel {
 public:
  static constexpr auto kName = "gpt";
  static constexpr auto kSummary = "A GPT-2 language model: pre-norm blocks, GELU, a tied head.";

  static constexpr bool kGenerates = true;

  static Schema<GptOptions> schema();
  static bool reads(const std::string& model_type) { return model_type == "gpt2"; }
  static GptOptions from_config(HfConfig& config);
  static void to_config(const GptOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config);
  static HfNames names(const GptOptions& options);

  Gpt(const GptOptions& options, const ModelContext& context)
      : net_(std::make_shared<torch::nn::Module>()) {
    const DataShape& data = context.data;
    want_tokens(kName, data);
    const int64_t length = data.input.empty() ? 0 : data.input[0];
    const int64_t vocab = sufficient_size({kName, "vocab", options.vocab, data.vocab});
    longest_ = sufficient_size({kName, "context", options.context, length});
    transformer_ = net_->register_module(
        "transformer", std::make_shared<GptTransformer>(vocab, longest_, options));
    if (options.tied) return;
    const auto no_bias = torch::nn::LinearOptions(options.width, vocab).bias(false);
    head_ = net_->register_module("lm_head", torch::nn::Linear(no_bias));
    torch::nn::init::normal_(head_->weight, 0.0, kGptWeightDeviation);
  }

  at::Tensor forward(const at::Tensor& tokens) override {
    return at::linear(hidden(tokens), head_weight());
  }
  at::Tensor hidden(const at::Tensor& tokens) override {
    return transformer_->forward(tokens, nullptr);
  }
  at::Tensor hidden_next(const at::Tensor& tokens, KeyValueCache& cache) override {
    return transformer_->forward(tokens, &cache);
  }
  at::Tensor hidden_apart(const at::Tensor& tokens, const at::Tensor& segments) override {
    return transformer_->forward_apart(tokens, texts_apart(segments));
  }
  int64_t longest() const override { return longest_; }
  at::Tensor head_weight() override {
    return head_ ? head_->weight : transformer_->token_embedding();
  }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "causal_lm"; }
  void check_samples(const DataShape& data) const override { check_length(kName, longest_, data); }
  TextOutput text_output() const override { return TextOutput::kNextToken; }

 private:
  std::shared_ptr<torch::nn::Module> net_;
  std::shared_ptr<GptTransformer> transformer_;
  torch::nn::Linear head_{nullptr};
  int64_t longest_ = 0;
};

Schema<GptOptions> Gpt::schema() {
  auto sizes =
      with_widths(transformer_schema<GptOptions>("Longest sequence it can see."),
                  "Numbers per token within a block's MLP; auto: four times the width.")
          .field("activation", &GptOptions::activation, "Between the MLP's two layers.")
          .on_resume(Change::kImpossible)
          .field("epsilon", &GptOptions::epsilon, "Added to a norm's variance.", more_than(0.0))
          .on_resume(Change::kImpossible)
          .field("tied", &GptOptions::tied, "Whether the head is the token embedding.")
          .on_resume(Change::kImpossible);
  const auto chance = within(0.0, 1.0);
  return with_weights(
      std::move(sizes)
          .field("dropout", &GptOptions::dropout,
                 "Chance of dropping an embedding, an attention weight or a block's output.",
                 chance)
          .field("attention_dropout", &GptOptions::attention_dropout,
                 "That of an attention weight, where it is another.", if_given<Auto>(chance))
          .field("embedding_dropout", &GptOptions::embedding_dropout,
                 "That of an embedding, where it is another.", if_given<Auto>(chance))
          .check([](const GptOptions& options, const Node& node, Reading& reading) {
            check_multiple({"width", options.width}, {"heads", options.heads}, node, reading);
          }));
}

GptOptions Gpt::from_config(HfConfig& config) {
  constexpr auto kNotBuilt = "this model does not do";
  config.want("scale_attn_weights", true, kNotBuilt);
  config.want("scale_attn_by_inverse_layer_idx", false, kNotBuilt);
  config.want("add_cross_attention", false, kNotBuilt);
  GptOptions options;
  options.vocab = {config.integer("vocab_size")};
  options.context = {config.integer("n_positions")};
  options.layers = config.integer("n_layer");
  options.heads = config.integer("n_head");
  options.width = config.integer("n_embd");
  options.hidden = {config.integer("n_inner", 4 * options.width)};
  options.activation = activation_in(config, "activation_function", HfActivation::kGeluTanh);
  options.epsilon = config.number("layer_norm_epsilon", 1e-5);
  options.tied = config.flag("tie_word_embeddings", true);
  options.dropout = config.number("resid_pdrop", 0.1);
  options.attention_dropout = {config.number("attn_pdrop", 0.1)};
  options.embedding_dropout = {config.number("embd_pdrop", 0.1)};
  return options;
}

void Gpt::to_config(const GptOptions& options, const WeightShapes& shapes, nlohmann::json& config) {
  config["model_type"] = "gpt2";
  config["architectures"] = {"GPT2LMHeadModel"};
  config["vocab_size"] = shapes.at("transformer.wte.weight").at(0);
  config["n_positions"] = shapes.at("transformer.wpe.weight").at(0);
  config["n_layer"] = options.layers;
  config["n_head"] = options.heads;
  config["n_embd"] = options.width;
  config["n_inner"] = gpt_hidden(options);
  config["activation_function"] = config_name(options.activation);
  config["layer_norm_epsilon"] = options.epsilon;
  config["tie_word_embeddings"] = options.tied;
  config["resid_pdrop"] = options.dropout;
  config["attn_pdrop"] = options.attention_dropout.value_or(options.dropout);
  config["embd_pdrop"] = options.embedding_dropout.value_or(options.dropout);
}

HfNames Gpt::names(const GptOptions& options) {
  HfNames names;
  names.base = "transformer.";
  names.transposed = {"*.c_attn.weight", "*.c_proj.weight", "*.c_fc.weight"};
  names.unused = {"*.attn.bias", "*.attn.masked_bias"};
  (options.tied ? names.unused : names.heads).push_back("lm_head.weight");
  return names;
}

const RegisterPretrained<Gpt> gpt;

}  // namespace
}  // namespace accel
