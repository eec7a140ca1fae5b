// Llama, Mistral, Mixtral, Qwen2, Qwen3 and Qwen3-MoE: causal transformers with rotary positions,
// RMS norm, gated MLPs and grouped-query attention. Parameter names are Hugging Face's.
#include <ATen/ops/arange.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <utility>

#include "core/api/auxiliary_loss.h"
#include "core/api/block.h"
#include "core/api/packed_sequences.h"
#include "models/hf/hf_family.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/activations.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/decoding.h"
#include "models/layers/expert_routing.h"
#include "models/layers/input_spec.h"
#include "models/layers/rope.h"
#include "models/layers/self_attention.h"
#include "models/layers/sizes.h"
#include "models/layers/tied_embedding.h"
#include "models/llama_options.h"

namespace accel {
namespace {

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
  LlamaMlp(const LlamaOptions& options, int64_t inner) : activation_(options.activation) {
    const int64_t width = options.hidden_size;
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

/// Experts and their router, which computes in float32.
class LlamaExperts final : public torch::nn::Module {
 public:
  explicit LlamaExperts(const LlamaOptions& options) : moe_(options.moe) {
    gate_ = llama_linear(*this, "gate", options.hidden_size, moe_.num_experts, false);
    torch::nn::ModuleList list;
    for (int64_t i = 0; i < moe_.num_experts; ++i) {
      experts_.push_back(std::make_shared<LlamaMlp>(options, options.expert_inner()));
      list->push_back(experts_.back());
    }
    register_module("experts", list);
  }

  at::Tensor forward(const at::Tensor& x, const LoadBalance& balance) {
    const at::Tensor tokens = x.flatten(0, 1);
    at::Tensor probabilities = gate_->forward(tokens).softmax(-1, at::kFloat);
    probabilities = balance.add_layer(probabilities, moe_.num_experts_per_tok);
    const ExpertRouting routing =
        route_to_experts(probabilities, moe_.num_experts_per_tok, moe_.norm_topk_prob);
    return mix_experts(tokens, routing,
                       [&](size_t i, const at::Tensor& rows) { return experts_[i]->forward(rows); })
        .view_as(x);
  }

 private:
  MoeOptions moe_;
  AdaptedLinear gate_{nullptr};
  std::vector<std::shared_ptr<LlamaMlp>> experts_;
};

class LlamaBlock final : public torch::nn::Module, public Block {
 public:
  LlamaBlock(const LlamaOptions& options, int64_t layer) {
    attention_ = register_module("self_attn", std::make_shared<LlamaAttention>(options));
    if (options.moe.has_experts(layer)) {
      experts_ = register_module("mlp", std::make_shared<LlamaExperts>(options));
    } else {
      mlp_ = register_module("mlp", std::make_shared<LlamaMlp>(options, options.inner()));
    }
    const auto norm = [&] {
      return std::make_shared<LlamaNorm>(options.hidden_size, options.norm_eps);
    };
    before_ = register_module("input_layernorm", norm());
    between_ = register_module("post_attention_layernorm", norm());
  }

  /// `mask`: visible tokens; undefined: causal.
  at::Tensor forward(const at::Tensor& inputs, const RopeTurns& turns, const at::Tensor& mask,
                     LayerCache* seen, const LoadBalance& balance) {
    const at::Tensor x =
        inputs.add(attention_->forward(before_->forward(inputs), turns, mask, seen));
    const at::Tensor y = between_->forward(x);
    return x.add(experts_ ? experts_->forward(y, balance) : mlp_->forward(y));
  }

 private:
  std::shared_ptr<LlamaAttention> attention_;
  std::shared_ptr<LlamaMlp> mlp_;          ///< or
  std::shared_ptr<LlamaExperts> experts_;  ///< instead of it
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
      blocks_.push_back(std::make_shared<LlamaBlock>(options, i));
      list->push_back(blocks_.back());
    }
    register_module("layers", list);
    norm_ =
        register_module("norm", std::make_shared<LlamaNorm>(options.hidden_size, options.norm_eps));
  }

  /// `seen`: cache of the preceding tokens, extended by `tokens`; null: no cache.
  at::Tensor forward(const at::Tensor& tokens, KeyValueCache* seen, const LoadBalance& balance) {
    const int64_t first = seen ? seen->length() : 0;
    return run(tokens, rope_.turns(first, tokens.size(1), tokens.device()), {}, seen, balance);
  }
  at::Tensor forward_apart(const at::Tensor& tokens, const BlockDiagonalMask& apart,
                           const LoadBalance& balance) {
    RopeTurns turns = rope_.turns(0, tokens.size(1), tokens.device());
    for (at::Tensor* part : {&turns.cosines, &turns.sines}) {
      *part = part->index({apart.positions}).unsqueeze(1);  // [batch, 1, length, width]
    }
    return run(tokens, turns, apart.mask, nullptr, balance);
  }

  const at::Tensor& token_embedding() const { return embed_tokens_->weight; }

 private:
  at::Tensor run(const at::Tensor& tokens, const RopeTurns& turns, const at::Tensor& mask,
                 KeyValueCache* seen, const LoadBalance& balance) {
    at::Tensor x =
        is_tied_ ? tied_embedding(embed_tokens_->weight, tokens) : embed_tokens_->forward(tokens);
    for (size_t i = 0; i < blocks_.size(); ++i) {
      x = run_block(*blocks_[i], x, turns, mask, seen ? &seen->layer(i) : nullptr, balance);
    }
    return norm_->forward(x);
  }

  Rope rope_;
  torch::nn::Embedding embed_tokens_;
  bool is_tied_;
  std::vector<std::shared_ptr<LlamaBlock>> blocks_;
  std::shared_ptr<LlamaNorm> norm_;
};

/// 1 for tokens and 0 for padding, float32 [batch * length].
at::Tensor token_mask(const Batch& batch) {
  const at::Tensor positions = at::arange(batch.inputs.size(1), batch.lengths.options());
  return positions.lt(batch.lengths.unsqueeze(1)).to(at::kFloat).flatten();
}

class Llama final : public LanguageModel,
                    public CachedDecoder,
                    public PackedSequences,
                    public AuxiliaryLoss,
                    public InputSpec {
 public:
  static constexpr auto kName = "llama";
  static constexpr const char* kHintFor[] = {"llama2", "llama3",  "mistral",  "qwen2",
                                             "qwen3",  "mixtral", "qwen3_moe"};
  static constexpr auto kSummary =
      "A Llama language model, or with a few options a Mistral, Mixtral, Qwen2, Qwen3 or "
      "Qwen3-MoE.";
  static constexpr bool kGenerates = true;

  static Schema<LlamaOptions> schema() { return LlamaOptions::schema(); }
  static bool reads(const std::string& type) { return LlamaOptions::reads(type); }
  static LlamaOptions from_config(HfConfig& config) { return LlamaOptions::from_config(config); }
  static void to_config(const LlamaOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config) {
    options.to_config(shapes, config);
  }
  static HfNames names(const LlamaOptions& options) { return options.names(); }

  Llama(const LlamaOptions& options, const ModelContext& context)
      : net_(std::make_shared<torch::nn::Module>()), balance_(options.balance()) {
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
  at::Tensor hidden(const at::Tensor& tokens) override {
    return balanced(
        [&](const LoadBalance& balance) { return body_->forward(tokens, nullptr, balance); });
  }
  at::Tensor hidden_next(const at::Tensor& tokens, KeyValueCache& cache) override {
    return body_->forward(tokens, &cache, {});
  }
  at::Tensor forward_packed(const at::Tensor& tokens, const at::Tensor& segments) override {
    return balanced([&](const LoadBalance& balance) {
      return body_->forward_apart(tokens, block_diagonal_mask(segments), balance);
    });
  }
  void begin_batch(const Batch& batch) override {
    balance_loss_.reset();
    counted_tokens_ = batch.lengths.defined() ? token_mask(batch) : at::Tensor();
  }
  at::Tensor auxiliary_loss() override { return std::exchange(balance_loss_, {}); }
  int64_t longest() const override { return longest_; }
  at::Tensor head_weight() override { return head_ ? head_->weight : body_->token_embedding(); }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return "causal_lm"; }
  void validate_input(const DataShape& data) const override { check_length(kName, longest_, data); }
  TextOutput text_output() const override { return TextOutput::kNextToken; }

 private:
  /// Adds the load-balancing loss of a forward pass in training.
  template <class Pass>
  at::Tensor balanced(const Pass& pass) {
    const bool active = balance_ > 0 && net_->is_training() && at::GradMode::is_enabled();
    if (!active) return pass(LoadBalance());
    const LoadBalance balance(balance_, counted_tokens_);
    auto [output, loss] = balance.finish(pass(balance));
    balance_loss_ = balance_loss_.defined() ? balance_loss_.add(loss) : loss;
    return output;
  }

  std::shared_ptr<torch::nn::Module> net_;
  std::shared_ptr<LlamaBody> body_;
  double balance_;             ///< weight of the load-balancing loss
  at::Tensor counted_tokens_;  ///< float32 [tokens]: 0 for padding; undefined: no padding
  at::Tensor balance_loss_;    ///< of the passes since begin_batch()
  AdaptedLinear head_{nullptr};
  int64_t longest_ = 0;
};

const RegisterPretrained<Llama> llama;

}  // namespace
}  // namespace accel
