// Llama and its kin (Mistral, Qwen2, Qwen3): causal transformers with rotary positions, RMS norms,
// a gated MLP, and keys and values that several heads share. Parameters are named as Hugging
// Face's.
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <nlohmann/json.hpp>

#include "core/packed_texts.h"
#include "models/activations.h"
#include "models/adapted_linear.h"
#include "models/block.h"
#include "models/decoding.h"
#include "models/fitted_model.h"
#include "models/hf_family.h"
#include "models/rope.h"
#include "models/sizes.h"
#include "models/texts_apart.h"
#include "models/tied_embedding.h"
#include "models/transformer_schema.h"

namespace accel {
namespace {
enum class LlamaBias { kNone, kInputs, kAll };
}  // namespace

template <>
struct EnumNames<LlamaBias> {
  static constexpr std::pair<LlamaBias, const char*> kValues[] = {
      {LlamaBias::kNone, "none"}, {LlamaBias::kInputs, "qkv"}, {LlamaBias::kAll, "all"}};
};

namespace {

struct LlamaOptions {
  Auto<int64_t> vocab;
  Auto<int64_t> context;
  int64_t layers = 4;
  int64_t heads = 4;
  Auto<int64_t> kv_heads;
  Auto<int64_t> head_width;
  int64_t width = 128;
  Auto<int64_t> hidden;
  HfActivation activation = HfActivation::kSilu;
  double epsilon = 1e-6;
  RopeOptions rope;
  LlamaBias attention_bias = LlamaBias::kNone;
  bool mlp_bias = false;
  bool query_norm = false;
  bool tied = false;
  double attention_dropout = 0.0;
  LoraOptions lora;
  FilePath weights;

  int64_t groups() const { return kv_heads.value_or(heads); }
  int64_t per_head() const { return head_width.value_or(width / heads); }
  /// Llama's own: two thirds of four times the width, rounded up to a multiple of 32.
  int64_t inner() const { return hidden.value_or((8 * width / 3 + 31) / 32 * 32); }
};

constexpr double kLlamaWeightDeviation = 0.02;

AdaptedLinear llama_linear(torch::nn::Module& in, const char* name, int64_t inputs, int64_t outputs,
                           bool bias) {
  const auto options = torch::nn::LinearOptions(inputs, outputs).bias(bias);
  return in.register_module(name, AdaptedLinear(options));
}

class LlamaNorm final : public torch::nn::Module {
 public:
  LlamaNorm(int64_t width, double epsilon)
      : weight_(register_parameter("weight", at::ones({width}))), epsilon_(epsilon) {}

  at::Tensor forward(const at::Tensor& x) {
    return at::rms_norm(x, weight_.sizes(), weight_, epsilon_);
  }

 private:
  at::Tensor weight_;
  double epsilon_;
};

class LlamaAttention final : public torch::nn::Module {
 public:
  explicit LlamaAttention(const LlamaOptions& options)
      : width_(options.per_head()), dropout_(options.attention_dropout) {
    const int64_t all = options.heads * width_, shared = options.groups() * width_;
    const bool bias = options.attention_bias != LlamaBias::kNone;
    q_proj_ = llama_linear(*this, "q_proj", options.width, all, bias);
    k_proj_ = llama_linear(*this, "k_proj", options.width, shared, bias);
    v_proj_ = llama_linear(*this, "v_proj", options.width, shared, bias);
    o_proj_ = llama_linear(*this, "o_proj", all, options.width,
                           options.attention_bias == LlamaBias::kAll);
    if (!options.query_norm) return;
    q_norm_ = register_module("q_norm", std::make_shared<LlamaNorm>(width_, options.epsilon));
    k_norm_ = register_module("k_norm", std::make_shared<LlamaNorm>(width_, options.epsilon));
  }

  at::Tensor forward(const at::Tensor& x, const RopeTurns& turns, const at::Tensor& mask,
                     LayerCache* seen) {
    const at::Tensor query = Rope::turn(by_head(q_proj_->forward(x), q_norm_), turns);
    const at::Tensor key = Rope::turn(by_head(k_proj_->forward(x), k_norm_), turns);
    const at::Tensor value = by_head(v_proj_->forward(x), nullptr);
    const at::Tensor y = seen ? seen->attend(query, key, value)
                              : at::scaled_dot_product_attention(
                                    query, key, value, given(mask), is_training() ? dropout_ : 0.0,
                                    /*is_causal=*/!mask.defined(), /*scale=*/{},
                                    /*enable_gqa=*/query.size(1) != key.size(1));
    return o_proj_->forward(y.transpose(1, 2).flatten(2));
  }

 private:
  /// [batch, length, heads x width] to [batch, heads, length, width], each head normalised.
  at::Tensor by_head(const at::Tensor& x, const std::shared_ptr<LlamaNorm>& norm) const {
    const at::Tensor heads = x.view({x.size(0), x.size(1), -1, width_});
    return (norm ? norm->forward(heads) : heads).transpose(1, 2);
  }

  int64_t width_;
  double dropout_;
  AdaptedLinear q_proj_{nullptr}, k_proj_{nullptr}, v_proj_{nullptr}, o_proj_{nullptr};
  std::shared_ptr<LlamaNorm> q_norm_, k_norm_;
};

class LlamaMlp final : public torch::nn::Module {
 public:
  explicit LlamaMlp(const LlamaOptions& options) : activation_(options.activation) {
    const int64_t width = options.width, inner = options.inner();
    gate_proj_ = llama_linear(*this, "gate_proj", width, inner, options.mlp_bias);
    up_proj_ = llama_linear(*this, "up_proj", width, inner, options.mlp_bias);
    down_proj_ = llama_linear(*this, "down_proj", inner, width, options.mlp_bias);
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor gate = activate(activation_, gate_proj_->forward(x));
    return down_proj_->forward(gate.mul(up_proj_->forward(x)));
  }

 private:
  HfActivation activation_;
  AdaptedLinear gate_proj_{nullptr}, up_proj_{nullptr}, down_proj_{nullptr};
};

class LlamaBlock final : public Block {
 public:
  explicit LlamaBlock(const LlamaOptions& options) {
    attention_ = register_module("self_attn", std::make_shared<LlamaAttention>(options));
    mlp_ = register_module("mlp", std::make_shared<LlamaMlp>(options));
    const auto norm = [&] { return std::make_shared<LlamaNorm>(options.width, options.epsilon); };
    before_ = register_module("input_layernorm", norm());
    between_ = register_module("post_attention_layernorm", norm());
  }

  /// `mask`: which tokens may be seen; undefined: those before each.
  at::Tensor forward(const at::Tensor& inputs, const RopeTurns& turns, const at::Tensor& mask,
                     LayerCache* seen) {
    const at::Tensor x =
        inputs.add(attention_->forward(before_->forward(inputs), turns, mask, seen));
    return x.add(mlp_->forward(between_->forward(x)));
  }

 private:
  std::shared_ptr<LlamaAttention> attention_;
  std::shared_ptr<LlamaMlp> mlp_;
  std::shared_ptr<LlamaNorm> before_, between_;
};

class LlamaBody final : public torch::nn::Module {
 public:
  LlamaBody(int64_t vocab, const LlamaOptions& options)
      : rope_(options.rope, options.per_head()),
        embed_tokens_(register_module("embed_tokens", torch::nn::Embedding(vocab, options.width))),
        is_tied_(options.tied) {
    torch::nn::ModuleList list;
    for (int64_t i = 0; i < options.layers; ++i) {
      blocks_.push_back(std::make_shared<LlamaBlock>(options));
      list->push_back(blocks_.back());
    }
    register_module("layers", list);
    norm_ = register_module("norm", std::make_shared<LlamaNorm>(options.width, options.epsilon));
  }

  /// `seen`: what came before `tokens`; null: nothing, and nothing is kept.
  at::Tensor forward(const at::Tensor& tokens, KeyValueCache* seen) {
    const int64_t first = seen ? seen->length() : 0;
    return run(tokens, rope_.turns(first, tokens.size(1), tokens.device()), {}, seen);
  }
  at::Tensor forward_apart(const at::Tensor& tokens, const TextsApart& apart) {
    RopeTurns turns = rope_.turns(0, tokens.size(1), tokens.device());
    for (at::Tensor* part : {&turns.cosines, &turns.sines}) {
      *part = part->index({apart.positions}).unsqueeze(1);  // [batch, 1, length, width]
    }
    return run(tokens, turns, apart.mask, nullptr);
  }

  const at::Tensor& token_embedding() const { return embed_tokens_->weight; }

 private:
  at::Tensor run(const at::Tensor& tokens, const RopeTurns& turns, const at::Tensor& mask,
                 KeyValueCache* seen) {
    at::Tensor x =
        is_tied_ ? tied_embedding(embed_tokens_->weight, tokens) : embed_tokens_->forward(tokens);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      x = run_block(*blocks_[i], x, turns, mask, seen ? &seen->layer(i) : nullptr);
    }
    return norm_->forward(x);
  }

  Rope rope_;
  torch::nn::Embedding embed_tokens_;
  bool is_tied_;
  std::vector<std::shared_ptr<LlamaBlock>> blocks_;
  std::shared_ptr<LlamaNorm> norm_;
};

class Llama final : public LanguageModel,
                    public CachedDecoder,
                    public KeepsTextsApart,
                    public FittedModel {
 public:
  static constexpr auto kName = "llama";
  static constexpr auto kSummary =
      "A Llama language model, or with a few options a Mistral, Qwen2 or Qwen3.";
  static constexpr bool kGenerates = true;

  static Schema<LlamaOptions> schema();
  static bool reads(const std::string& type) {
    return type == "llama" || type == "mistral" || type == "qwen2" || type == "qwen3";
  }
  static LlamaOptions from_config(HfConfig& config);
  static void to_config(const LlamaOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config);
  static HfNames names(const LlamaOptions& options) {
    HfNames names{"model.", {}, {"*.rotary_emb.inv_freq"}};
    (options.tied ? names.unused : names.heads).push_back("lm_head.weight");
    return names;
  }

  Llama(const LlamaOptions& options, const ModelContext& context)
      : net_(std::make_shared<torch::nn::Module>()) {
    const DataShape& data = context.data;
    want_tokens(kName, data);
    const int64_t length = data.input.empty() ? 0 : data.input[0];
    const int64_t vocab = sufficient_size({kName, "vocab", options.vocab, data.vocab});
    longest_ = sufficient_size({kName, "context", options.context, length});
    body_ = net_->register_module("model", std::make_shared<LlamaBody>(vocab, options));
    if (!options.tied) head_ = llama_linear(*net_, "lm_head", options.width, vocab, false);
    for (const auto& module : net_->modules(false)) {
      if (auto* linear = module->as<torch::nn::Linear>()) {
        torch::nn::init::normal_(linear->weight, 0.0, kLlamaWeightDeviation);
        if (linear->bias.defined()) torch::nn::init::zeros_(linear->bias);
      } else if (auto* embedding = module->as<torch::nn::Embedding>()) {
        torch::nn::init::normal_(embedding->weight, 0.0, kLlamaWeightDeviation);
      }
    }
  }

  at::Tensor forward(const at::Tensor& tokens) override {
    return at::linear(hidden(tokens), head_weight());
  }
  at::Tensor hidden(const at::Tensor& tokens) override { return body_->forward(tokens, nullptr); }
  at::Tensor hidden_next(const at::Tensor& tokens, KeyValueCache& cache) override {
    return body_->forward(tokens, &cache);
  }
  at::Tensor hidden_apart(const at::Tensor& tokens, const at::Tensor& segments) override {
    return body_->forward_apart(tokens, texts_apart(segments));
  }
  int64_t longest() const override { return longest_; }
  at::Tensor head_weight() override { return head_ ? head_->weight : body_->token_embedding(); }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "causal_lm"; }
  void check_samples(const DataShape& data) const override { check_length(kName, longest_, data); }
  TextOutput text_output() const override { return TextOutput::kNextToken; }

 private:
  std::shared_ptr<torch::nn::Module> net_;
  std::shared_ptr<LlamaBody> body_;
  AdaptedLinear head_{nullptr};
  int64_t longest_ = 0;
};

void check_llama(const LlamaOptions& options, const Node& node, Reading& reading) {
  const NamedSize heads = {"heads", options.heads};
  const bool whole =
      options.head_width || check_multiple({"width", options.width}, heads, node, reading);
  if (whole && options.per_head() % 2 != 0) {
    reading.problems.error(
        node.where, "a head's width must be even, not " + std::to_string(options.per_head()));
  }
  check_multiple(heads, {"kv_heads", options.groups()}, node, reading);
}

Schema<LlamaOptions> Llama::schema() {
  using Options = LlamaOptions;
  const auto count = at_least<int64_t>(1);
  auto heads =
      transformer_schema<Options>("Longest sequence it is to see.")
          .field("kv_heads", &Options::kv_heads,
                 "Heads of keys and values, shared by the others; auto: as many.",
                 if_given<Auto>(count))
          .on_resume(Change::kImpossible)
          .field("head_width", &Options::head_width,
                 "Numbers per token in a head; auto: width / heads.", if_given<Auto>(count))
          .on_resume(Change::kImpossible);
  auto kinds =
      with_widths(std::move(heads), "Numbers per token within the MLP; auto: 8/3 of the width.")
          .field("activation", &Options::activation, "Of the MLP's gate.")
          .on_resume(Change::kImpossible)
          .field("epsilon", &Options::epsilon, "Added to a norm's mean square.", more_than(0.0))
          .on_resume(Change::kImpossible)
          .field("rope", &Options::rope, "How positions turn queries and keys.")
          .on_resume(Change::kImpossible)
          .field("attention_bias", &Options::attention_bias,
                 "Which maps of attention add a bias; Qwen2: qkv.")
          .on_resume(Change::kImpossible)
          .field("mlp_bias", &Options::mlp_bias, "Whether the MLP's maps add one.")
          .on_resume(Change::kImpossible)
          .field("query_norm", &Options::query_norm,
                 "Whether queries and keys are normalised, as in Qwen3.")
          .on_resume(Change::kImpossible)
          .field("tied", &Options::tied, "Whether the head is the token embedding.")
          .on_resume(Change::kImpossible);
  return with_weights(std::move(kinds)
                          .field("attention_dropout", &Options::attention_dropout,
                                 "Chance of dropping an attention weight.", within(0.0, 1.0))
                          .check(&check_llama));
}

LlamaOptions Llama::from_config(HfConfig& config) {
  const std::string type = config.model_type();
  LlamaOptions options;
  options.vocab = {config.integer("vocab_size")};
  options.context = {config.integer("max_position_embeddings", 2048)};
  options.layers = config.integer("num_hidden_layers");
  options.heads = config.integer("num_attention_heads");
  options.kv_heads = {config.integer("num_key_value_heads", options.heads)};
  options.width = config.integer("hidden_size");
  const int64_t even = options.heads > 0 ? options.width / options.heads : 0;
  options.head_width = {config.integer("head_dim", type == "qwen3" ? 128 : even)};
  options.hidden = {config.integer("intermediate_size")};
  options.activation = activation_in(config, "hidden_act", HfActivation::kSilu);
  options.epsilon = config.number("rms_norm_eps", 1e-6);
  options.rope = RopeOptions::from_config(config);
  const bool biased = type != "mistral" && type != "qwen2" && config.flag("attention_bias", false);
  if (biased) options.attention_bias = LlamaBias::kAll;
  if (type == "qwen2") options.attention_bias = LlamaBias::kInputs;
  options.mlp_bias = type == "llama" && config.flag("mlp_bias", false);
  options.query_norm = type == "qwen3";
  options.tied = config.flag("tie_word_embeddings", false);
  options.attention_dropout = config.number("attention_dropout", 0.0);
  const bool slides = type == "mistral" || config.flag("use_sliding_window", false);
  if (slides && config.integer("sliding_window", *options.context) < *options.context) {
    config.want("sliding_window", nullptr, "this model does not do");
  }
  return options;
}

void Llama::to_config(const LlamaOptions& options, const WeightShapes& shapes,
                      nlohmann::json& config) {
  const bool plain = options.attention_bias == LlamaBias::kNone && !options.mlp_bias;
  std::string type = "llama", name = "LlamaForCausalLM";
  if (options.query_norm) {
    type = "qwen3", name = "Qwen3ForCausalLM";
  } else if (options.attention_bias == LlamaBias::kInputs) {
    type = "qwen2", name = "Qwen2ForCausalLM";
  } else if (plain && config.value("model_type", "") == "mistral") {
    type = "mistral", name = "MistralForCausalLM";
  }
  config["model_type"] = type;
  config["architectures"] = {name};
  config["vocab_size"] = shapes.at("model.embed_tokens.weight").at(0);
  if (options.context) config["max_position_embeddings"] = *options.context;
  config["num_hidden_layers"] = options.layers;
  config["num_attention_heads"] = options.heads;
  config["num_key_value_heads"] = options.groups();
  config["head_dim"] = options.per_head();
  config["hidden_size"] = options.width;
  config["intermediate_size"] = options.inner();
  config["hidden_act"] = config_name(options.activation);
  config["rms_norm_eps"] = options.epsilon;
  options.rope.to_config(config);
  config["attention_bias"] = options.attention_bias == LlamaBias::kAll;
  config["mlp_bias"] = options.mlp_bias;
  config["tie_word_embeddings"] = options.tied;
  config["attention_dropout"] = options.attention_dropout;
}

const RegisterPretrained<Llama> llama;

}  // namespace
}  // namespace accel
