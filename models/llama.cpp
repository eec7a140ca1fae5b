// Llama, Mistral, Qwen2 and Qwen3: causal transformers with rotary positions, RMS norm, gated MLP
// and grouped-query attention. Parameter names are Hugging Face's.
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <nlohmann/json.hpp>

#include "core/api/block.h"
#include "core/api/packed_sequences.h"
#include "core/base/text.h"
#include "models/hf/hf_family.h"
#include "models/hf/hf_sizes.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/activations.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/decoding.h"
#include "models/layers/input_spec.h"
#include "models/layers/rope.h"
#include "models/layers/self_attention.h"
#include "models/layers/sizes.h"
#include "models/layers/tied_embedding.h"
#include "models/layers/transformer_schema.h"

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
  Auto<int64_t> vocab_size;
  Auto<int64_t> max_seq_len;
  int64_t num_layers = 4;
  int64_t num_heads = 4;
  Auto<int64_t> num_kv_heads;
  Auto<int64_t> head_dim;
  int64_t hidden_size = 128;
  Auto<int64_t> intermediate_size;
  HfActivation activation = HfActivation::kSilu;
  double norm_eps = 1e-6;
  RopeOptions rope;
  LlamaBias attention_bias = LlamaBias::kNone;
  bool mlp_bias = false;
  bool qk_norm = false;
  bool tie_embeddings = false;
  double attention_dropout = 0.0;
  LoraOptions lora;
  FilePath weights;

  int64_t groups() const { return num_kv_heads.value_or(num_heads); }
  int64_t per_head() const { return head_dim.value_or(hidden_size / num_heads); }
  /// Llama's default: two thirds of four times the hidden size, rounded up to a multiple of 32.
  int64_t inner() const { return intermediate_size.value_or((8 * hidden_size / 3 + 31) / 32 * 32); }
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
    const int64_t all = options.num_heads * width_, shared = options.groups() * width_;
    const bool bias = options.attention_bias != LlamaBias::kNone;
    q_proj_ = llama_linear(*this, "q_proj", options.hidden_size, all, bias);
    k_proj_ = llama_linear(*this, "k_proj", options.hidden_size, shared, bias);
    v_proj_ = llama_linear(*this, "v_proj", options.hidden_size, shared, bias);
    o_proj_ = llama_linear(*this, "o_proj", all, options.hidden_size,
                           options.attention_bias == LlamaBias::kAll);
    if (!options.qk_norm) return;
    q_norm_ = register_module("q_norm", std::make_shared<LlamaNorm>(width_, options.norm_eps));
    k_norm_ = register_module("k_norm", std::make_shared<LlamaNorm>(width_, options.norm_eps));
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
  /// [batch, length, heads x width] to [batch, heads, length, width], with a norm per head.
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
    const int64_t width = options.hidden_size, inner = options.inner();
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

class LlamaBlock final : public torch::nn::Module, public Block {
 public:
  explicit LlamaBlock(const LlamaOptions& options) {
    attention_ = register_module("self_attn", std::make_shared<LlamaAttention>(options));
    mlp_ = register_module("mlp", std::make_shared<LlamaMlp>(options));
    const auto norm = [&] {
      return std::make_shared<LlamaNorm>(options.hidden_size, options.norm_eps);
    };
    before_ = register_module("input_layernorm", norm());
    between_ = register_module("post_attention_layernorm", norm());
  }

  /// `mask`: visible tokens; undefined: causal.
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
        embed_tokens_(
            register_module("embed_tokens", torch::nn::Embedding(vocab, options.hidden_size))),
        is_tied_(options.tie_embeddings) {
    torch::nn::ModuleList list;
    for (int64_t i = 0; i < options.num_layers; ++i) {
      blocks_.push_back(std::make_shared<LlamaBlock>(options));
      list->push_back(blocks_.back());
    }
    register_module("layers", list);
    norm_ =
        register_module("norm", std::make_shared<LlamaNorm>(options.hidden_size, options.norm_eps));
  }

  /// `seen`: cache of the preceding tokens, extended by `tokens`; null: no cache.
  at::Tensor forward(const at::Tensor& tokens, KeyValueCache* seen) {
    const int64_t first = seen ? seen->length() : 0;
    return run(tokens, rope_.turns(first, tokens.size(1), tokens.device()), {}, seen);
  }
  at::Tensor forward_apart(const at::Tensor& tokens, const BlockDiagonalMask& apart) {
    RopeTurns turns = rope_.turns(0, tokens.size(1), tokens.device());
    for (at::Tensor* part : {&turns.cosines, &turns.sines}) {
      *part = part->index({apart.positions}).unsqueeze(1);  // [batch, 1, length, width]
    }
    return run(tokens, turns, apart.mask, nullptr);
  }

  const at::Tensor& token_embedding() const { return embed_tokens_->weight; }
  std::vector<Block*> chain() const { return block_chain(blocks_); }

 private:
  at::Tensor run(const at::Tensor& tokens, const RopeTurns& turns, const at::Tensor& mask,
                 KeyValueCache* seen) {
    at::Tensor x = chain_input(*blocks_.front(), [&] {
      return is_tied_ ? tied_embedding(embed_tokens_->weight, tokens)
                      : embed_tokens_->forward(tokens);
    });
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
                    public PackedSequences,
                    public BlockChain,
                    public InputSpec {
 public:
  static constexpr auto kName = "llama";
  static constexpr const char* kHintFor[] = {"llama2", "llama3", "mistral", "qwen2", "qwen3"};
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
    (options.tie_embeddings ? names.unused : names.heads).push_back("lm_head.weight");
    return names;
  }

  Llama(const LlamaOptions& options, const ModelContext& context)
      : net_(std::make_shared<torch::nn::Module>()) {
    const DataShape& data = context.data;
    require_tokens(kName, data);
    const int64_t length = data.input.empty() ? 0 : data.input[0];
    const int64_t vocab = sufficient_size({kName, "vocab_size", options.vocab_size, data.vocab});
    longest_ = sufficient_size({kName, "max_seq_len", options.max_seq_len, length});
    body_ = net_->register_module("model", std::make_shared<LlamaBody>(vocab, options));
    if (!options.tie_embeddings)
      head_ = llama_linear(*net_, "lm_head", options.hidden_size, vocab, false);
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
  at::Tensor forward_packed(const at::Tensor& tokens, const at::Tensor& segments) override {
    return body_->forward_apart(tokens, block_diagonal_mask(segments));
  }
  int64_t longest() const override { return longest_; }
  at::Tensor head_weight() override { return head_ ? head_->weight : body_->token_embedding(); }
  std::vector<Block*> chain() override { return body_->chain(); }
  at::Tensor tied_weight() override { return head_ ? at::Tensor() : body_->token_embedding(); }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "causal_lm"; }
  void validate_input(const DataShape& data) const override { check_length(kName, longest_, data); }
  TextOutput text_output() const override { return TextOutput::kNextToken; }

 private:
  std::shared_ptr<torch::nn::Module> net_;
  std::shared_ptr<LlamaBody> body_;
  AdaptedLinear head_{nullptr};
  int64_t longest_ = 0;
};

void check_llama(const LlamaOptions& options, const Node& node, Reading& reading) {
  const NamedSize heads = {"num_heads", options.num_heads};
  const bool whole = options.head_dim ||
                     check_multiple({"hidden_size", options.hidden_size}, heads, node, reading);
  if (whole && options.per_head() % 2 != 0) {
    reading.problems.error(node.where,
                           text("a head's width must be even, not {}", options.per_head()));
  }
  check_multiple(heads, {"num_kv_heads", options.groups()}, node, reading);
}

Schema<LlamaOptions> Llama::schema() {
  using Options = LlamaOptions;
  const auto count = at_least<int64_t>(1);
  auto heads =
      transformer_schema<Options>("Maximum sequence length.")
          .field("num_kv_heads", &Options::num_kv_heads,
                 "Key and value heads (grouped-query attention); auto: num_heads.",
                 if_given<Auto>(count))
          .on_resume(Change::kImpossible)
          .renamed_from("kv_heads")
          .hint_for({"num_key_value_heads", "n_kv_heads"})
          .field("head_dim", &Options::head_dim,
                 "Features in a head; auto: hidden_size / num_heads.", if_given<Auto>(count))
          .on_resume(Change::kImpossible)
          .renamed_from("head_width");
  auto sizes =
      with_sizes(std::move(heads), "Features inside the MLP; auto: 8/3 of the hidden size.")
          .field("activation", &Options::activation, "Activation of the MLP's gate.")
          .on_resume(Change::kImpossible);
  auto kinds = with_norm_eps(std::move(sizes), "Added to a norm's mean square.")
                   .field("rope", &Options::rope, "Rotary position embedding.")
                   .on_resume(Change::kImpossible)
                   .field("attention_bias", &Options::attention_bias,
                          "Attention layers with a bias; Qwen2: qkv.")
                   .on_resume(Change::kImpossible)
                   .field("mlp_bias", &Options::mlp_bias, "Whether the MLP's layers have a bias.")
                   .on_resume(Change::kImpossible)
                   .field("qk_norm", &Options::qk_norm,
                          "Whether queries and keys are normalised, as in Qwen3.")
                   .on_resume(Change::kImpossible)
                   .renamed_from("query_norm")
                   .hint_for({"use_qk_norm"});
  kinds = with_tie_embeddings(std::move(kinds));
  return with_weights(std::move(kinds)
                          .field("attention_dropout", &Options::attention_dropout,
                                 "Dropout of attention weights.", within(0.0, 1.0))
                          .check(&check_llama));
}

constexpr HfSizeKeys kLlamaKeys = {.norm_eps = "rms_norm_eps"};

LlamaOptions Llama::from_config(HfConfig& config) {
  const std::string type = config.model_type();
  LlamaOptions options;
  options.vocab_size = {config.integer("vocab_size")};
  options.max_seq_len = {config.integer("max_position_embeddings", 2048)};
  read_hf_sizes(config, kLlamaKeys, options);
  options.num_kv_heads = {config.integer("num_key_value_heads", options.num_heads)};
  const int64_t even = options.num_heads > 0 ? options.hidden_size / options.num_heads : 0;
  options.head_dim = {config.integer("head_dim", type == "qwen3" ? 128 : even)};
  options.rope = RopeOptions::from_config(config);
  const bool biased = type != "mistral" && type != "qwen2" && config.flag("attention_bias", false);
  if (biased) options.attention_bias = LlamaBias::kAll;
  if (type == "qwen2") options.attention_bias = LlamaBias::kInputs;
  options.mlp_bias = type == "llama" && config.flag("mlp_bias", false);
  options.qk_norm = type == "qwen3";
  options.tie_embeddings = config.flag("tie_word_embeddings", false);
  options.attention_dropout = config.number("attention_dropout", 0.0);
  const bool slides = type == "mistral" || config.flag("use_sliding_window", false);
  if (slides && config.integer("sliding_window", *options.max_seq_len) < *options.max_seq_len) {
    config.want("sliding_window", nullptr, "this model does not do");
  }
  return options;
}

void Llama::to_config(const LlamaOptions& options, const WeightShapes& shapes,
                      nlohmann::json& config) {
  const bool plain = options.attention_bias == LlamaBias::kNone && !options.mlp_bias;
  std::string type = "llama", name = "LlamaForCausalLM";
  if (options.qk_norm) {
    type = "qwen3", name = "Qwen3ForCausalLM";
  } else if (options.attention_bias == LlamaBias::kInputs) {
    type = "qwen2", name = "Qwen2ForCausalLM";
  } else if (plain && config.value("model_type", "") == "mistral") {
    type = "mistral", name = "MistralForCausalLM";
  }
  config["model_type"] = type;
  config["architectures"] = {name};
  config["vocab_size"] = shapes.at("model.embed_tokens.weight").at(0);
  if (options.max_seq_len) config["max_position_embeddings"] = *options.max_seq_len;
  write_hf_sizes(options, options.inner(), kLlamaKeys, config);
  config["num_key_value_heads"] = options.groups();
  config["head_dim"] = options.per_head();
  options.rope.to_config(config);
  config["attention_bias"] = options.attention_bias == LlamaBias::kAll;
  config["mlp_bias"] = options.mlp_bias;
  config["tie_word_embeddings"] = options.tie_embeddings;
  config["attention_dropout"] = options.attention_dropout;
}

const RegisterPretrained<Llama> llama;

}  // namespace
}  // namespace accel
