// GPT-2: a causal transformer with learned positions; the head is tied to the token embedding or
// separate. Parameter names are those of Hugging Face's GPT-2, with linear weights stored [out, in]
// as in nn.Linear.
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>

#include <cmath>

#include "core/api/block.h"
#include "core/api/packed_sequences.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "models/decoder_head.h"
#include "models/gpt_options.h"
#include "models/hf/register_pretrained.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/activations.h"
#include "models/layers/adapted_embedding.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/context_parallel.h"
#include "models/layers/decoding.h"
#include "models/layers/embedding_noise.h"
#include "models/layers/input_spec.h"
#include "models/layers/self_attention.h"
#include "models/layers/sizes.h"
#include "models/layers/tensor_parallel.h"

namespace accel {
namespace {

constexpr double kGptWeightDeviation = 0.02;

class GptAttention final : public torch::nn::Module {
 public:
  GptAttention(const GptOptions& options, const TensorRanksPtr& ranks)
      : c_attn_(
            register_module("c_attn", AdaptedLinear(options.hidden_size, 3 * options.hidden_size))),
        c_proj_(register_module("c_proj", AdaptedLinear(options.hidden_size, options.hidden_size))),
        head_dim_(options.hidden_size / options.num_heads),
        dropout_(options.dropout),
        attention_dropout_(options.attention_dropout.value_or(options.dropout)),
        ranks_(ranks) {
    c_proj_->divide_inputs(ranks);
  }

  at::Tensor forward(const at::Tensor& inputs, LayerCache* seen, const VisibleKeys& visible) {
    const at::Tensor fused = c_attn_->forward(enter(ranks_, inputs));
    const std::vector<at::Tensor> parts = fused.split(fused.size(2) / 3, 2);
    const at::Tensor query = by_head(parts[0]), key = by_head(parts[1]), value = by_head(parts[2]);
    const at::Tensor y =
        seen ? seen->attend(query, key, value) : attend_to(query, key, value, visible);
    return residual_dropout(ranks_, c_proj_->forward(y.transpose(1, 2).flatten(2)),
                            is_training() ? dropout_ : 0);
  }

  AdaptedLinear projection() { return c_proj_; }

 private:
  /// [batch, context, width] to [batch, heads, context, width / heads]
  at::Tensor by_head(const at::Tensor& x) const {
    return x.view({x.size(0), x.size(1), -1, head_dim_}).transpose(1, 2);
  }

  at::Tensor attend_to(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                       const VisibleKeys& visible) const {
    const double dropout = is_training() ? attention_dropout_ : 0.0;
    const auto stream = own_random_stream(ranks_, query.device(), dropout > 0);
    return attend(query, key, value, visible, {.dropout = dropout});
  }

  AdaptedLinear c_attn_, c_proj_;
  int64_t head_dim_;
  double dropout_, attention_dropout_;
  TensorRanksPtr ranks_;
};

class GptMlp final : public torch::nn::Module {
 public:
  GptMlp(const GptOptions& options, int64_t hidden, const TensorRanksPtr& ranks)
      : c_fc_(register_module("c_fc", AdaptedLinear(options.hidden_size, hidden))),
        c_proj_(register_module("c_proj", AdaptedLinear(hidden, options.hidden_size))),
        activation_(options.activation),
        dropout_(options.dropout),
        ranks_(ranks) {
    c_proj_->divide_inputs(ranks);
  }

  at::Tensor forward(const at::Tensor& x) {
    const at::Tensor inner = activate(activation_, c_fc_->forward(enter(ranks_, x)));
    return residual_dropout(ranks_, c_proj_->forward(inner), is_training() ? dropout_ : 0);
  }

  AdaptedLinear projection() { return c_proj_; }

 private:
  AdaptedLinear c_fc_, c_proj_;
  HfActivation activation_;
  double dropout_;
  TensorRanksPtr ranks_;
};

torch::nn::LayerNorm gpt_norm(const GptOptions& options) {
  return torch::nn::LayerNorm(
      torch::nn::LayerNormOptions({options.hidden_size}).eps(options.norm_eps));
}

class GptBlock final : public torch::nn::Module, public Block {
 public:
  GptBlock(const GptOptions& options, const TensorRanksPtr& ranks)
      : ln_1_(register_module("ln_1", gpt_norm(options))),
        attn_(register_module("attn", std::make_shared<GptAttention>(options, ranks))),
        ln_2_(register_module("ln_2", gpt_norm(options))),
        mlp_(register_module("mlp", std::make_shared<GptMlp>(options, options.inner(), ranks))) {}

  at::Tensor forward(const at::Tensor& inputs, LayerCache* seen, const VisibleKeys& visible) {
    const at::Tensor x = inputs.add(attn_->forward(ln_1_->forward(inputs), seen, visible));
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
  GptTransformer(int64_t vocab, int64_t context, const GptOptions& options,
                 const TensorRanksPtr& ranks)
      : wte_(register_module("wte", AdaptedEmbedding(vocab, options.hidden_size))),
        wpe_(register_module("wpe", AdaptedEmbedding(context, options.hidden_size))),
        is_tied_(options.tie_embeddings),
        dropout_(options.embedding_dropout.value_or(options.dropout)),
        vocab_(vocab),
        ranks_(ranks) {
    torch::nn::ModuleList list;
    for (int64_t i = 0; i < options.num_layers; ++i) {
      blocks_.push_back(std::make_shared<GptBlock>(options, ranks));
      list->push_back(blocks_.back());
    }
    register_module("h", list);
    ln_f_ = register_module("ln_f", gpt_norm(options));
    initialise();
  }

  /// `seen`: cache of the preceding tokens, extended by `tokens`; null: no cache.
  at::Tensor forward(const at::Tensor& tokens, KeyValueCache* seen) {
    const at::Tensor positions =
        seen ? seen->positions(tokens) : at::arange(tokens.size(1), tokens.options());
    const ContextRanksPtr context = seen ? nullptr : dividing(context_);
    return context ? run_divided(tokens, positions, {.ranks = context})
                   : run(tokens, padded_sequence(ranks_, positions, 0), seen, {});
  }
  at::Tensor forward_packed(const at::Tensor& tokens, const at::Tensor& segments) {
    if (const ContextRanksPtr context = dividing(context_)) {
      const at::Tensor starts = text_starts(segments);
      const at::Tensor positions = at::arange(segments.size(1), segments.options()).sub(starts);
      return run_divided(tokens, positions, visible_in_texts(context, starts));
    }
    const BlockDiagonalMask apart = block_diagonal_mask(padded_sequence(ranks_, segments, -1));
    return run(tokens, apart.positions, nullptr, {.mask = apart.mask});
  }

  void divide_sequences(ContextRanksPtr ranks) { context_ = std::move(ranks); }
  const ContextRanks* context_ranks() const { return context_.get(); }

  const at::Tensor& token_embedding() const { return wte_->weight; }
  DividedVocabulary vocabulary() const { return {ranks_.get(), vocab_}; }
  std::vector<Block*> chain() const { return block_chain(blocks_); }

 private:
  /// `positions` are of the whole sequence.
  at::Tensor run_divided(const at::Tensor& tokens, const at::Tensor& positions,
                         const VisibleKeys& visible) {
    const ContextRanks* const context = visible.ranks.get();
    const auto stream = is_training() ? context->own_random_stream(tokens.device()) : nullptr;
    return run(own_positions(context, tokens, 1, 0),
               own_positions(context, positions, positions.dim() - 1, 0), nullptr, visible);
  }

  /// Positions and mask are of the padded sequence.
  at::Tensor run(const at::Tensor& tokens, const at::Tensor& positions, KeyValueCache* seen,
                 const VisibleKeys& visible) {
    at::Tensor x = chain_input(*blocks_.front(), [&] {
      const at::Tensor padded = padded_sequence(ranks_, tokens, 0);
      const at::Tensor words = with_embedding_noise(wte_->adapted(
          vocabulary_embedding(vocabulary(), wte_->weight, padded, is_tied_), padded));
      const at::Tensor sum =
          words.add(wpe_->forward(own_part(ranks_, positions, positions.dim() - 1)));
      return residual_dropout(ranks_, sum, is_training() ? dropout_ : 0);
    });
    for (size_t i = 0; i < blocks_.size(); ++i) {
      x = run_block(*blocks_[i], x, seen ? &seen->layer(i) : nullptr, visible);
    }
    return unpadded(enter(ranks_, ln_f_->forward(x)), tokens.size(1));
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
    // Every block adds to the residual stream twice: keeps its variance independent of the depth.
    const double deviation =
        kGptWeightDeviation / std::sqrt(2.0 * static_cast<double>(blocks_.size()));
    for (const auto& block : blocks_) {
      for (auto& layer : block->projections()) {
        torch::nn::init::normal_(layer->weight, 0.0, deviation);
      }
    }
  }

  AdaptedEmbedding wte_, wpe_;
  std::vector<std::shared_ptr<GptBlock>> blocks_;
  torch::nn::LayerNorm ln_f_{nullptr};
  bool is_tied_;
  double dropout_;
  int64_t vocab_;
  TensorRanksPtr ranks_;
  ContextRanksPtr context_;
};

class Gpt final : public LanguageModel,
                  public CachedDecoder,
                  public PackedSequences,
                  public TensorParallel,
                  public ContextParallel,
                  public BlockChain,
                  public InputSpec {
 public:
  static constexpr auto kName = "gpt";
  static constexpr const char* kHintFor[] = {"gpt2", "gpt-2", "nanogpt"};
  static constexpr auto kSummary = "A GPT-2 language model: pre-norm blocks, GELU, a tied head.";

  static constexpr bool kGenerates = true;

  static Schema<GptOptions> schema() { return GptOptions::schema(); }
  static bool reads(const std::string& model_type) { return model_type == "gpt2"; }
  static GptOptions from_config(HfConfig& config) { return gpt_options_in(config); }
  static void to_config(const GptOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config) {
    write_gpt_options(options, shapes, config);
  }
  static HfNames names(const GptOptions& options) { return options.names(); }

  Gpt(const GptOptions& options, const ModelContext& context)
      : net_(std::make_shared<torch::nn::Module>()),
        kind_(DecoderHead::of(kName, options)),
        num_heads_(options.num_heads),
        attention_dropout_(options.attention_dropout.value_or(options.dropout)) {
    const DataShape& data = context.data;
    require_tokens(kName, data);
    const int64_t length = data.input.empty() ? 0 : data.input[0];
    const int64_t vocab = sufficient_size({kName, "vocab_size", options.vocab_size, data.vocab});
    longest_ = sufficient_size({kName, "max_seq_len", options.max_seq_len, length});
    transformer_ = net_->register_module(
        "transformer", std::make_shared<GptTransformer>(vocab, longest_, options, context.tensor));
    default_task_ = kind_.default_task(data);
    if (!kind_.is_language_model()) {
      const auto linear = torch::nn::LinearOptions(options.hidden_size, kind_.outputs(data))
                              .bias(kind_.kind != EncoderHead::kClasses);
      head_ = net_->register_module(gpt_head_layer(kind_.kind), AdaptedLinear(linear));
      torch::nn::init::normal_(head_->weight, 0.0, kGptWeightDeviation);
      if (head_->bias.defined()) torch::nn::init::zeros_(head_->bias);
      return;
    }
    if (options.tie_embeddings) {
      tied_head_ = net_->register_module("lm_head", TiedHead(options.hidden_size, vocab));
      return;
    }
    const auto no_bias = torch::nn::LinearOptions(options.hidden_size, vocab).bias(false);
    head_ = net_->register_module("lm_head", AdaptedLinear(no_bias));
    torch::nn::init::normal_(head_->weight, 0.0, kGptWeightDeviation);
  }

  /// Logits of the next token, or outputs of DecoderHead::forward().
  at::Tensor forward(const at::Tensor& tokens) override {
    if (!kind_.is_language_model()) return forward_batch({tokens, {}, {}});
    return vocabulary_logits(vocabulary(), hidden(tokens), head_weight());
  }
  at::Tensor forward_batch(const Batch& batch) override {
    if (kind_.is_language_model()) return forward(batch.inputs);
    return kind_.forward(*head_, hidden(batch.inputs), batch);
  }
  at::Tensor hidden(const at::Tensor& tokens) override {
    return head_adapter().widened_inputs(transformer_->forward(tokens, nullptr));
  }
  at::Tensor hidden_next(const at::Tensor& tokens, KeyValueCache& cache) override {
    return head_adapter().widened_inputs(transformer_->forward(tokens, &cache));
  }
  bool supports_ragged_rows() const override { return true; }
  at::Tensor forward_packed(const at::Tensor& tokens, const at::Tensor& segments) override {
    return head_adapter().widened_inputs(transformer_->forward_packed(tokens, segments));
  }
  int64_t longest() const override { return longest_; }
  TensorPlan tensor_plan(int64_t ranks) const override;
  DividedVocabulary vocabulary() const override { return transformer_->vocabulary(); }
  void divide_sequences(ContextRanksPtr ranks) override {
    if (!kind_.is_language_model()) refuse_head("'cp' and 'sp'");
    check_divides_sequences(*ranks, num_heads_, num_heads_, attention_dropout_);
    transformer_->divide_sequences(std::move(ranks));
  }
  const ContextRanks* context_ranks() const override { return transformer_->context_ranks(); }
  at::Tensor head_weight() override {
    if (!kind_.is_language_model()) {
      throw Error(
          ExitCode::kRecipe,
          text("this gpt has the head '{}' and no logits of tokens", gpt_head_layer(kind_.kind)),
          "name a language model");
    }
    return head_adapter().widened_weight(head_ ? head_->weight : transformer_->token_embedding());
  }
  std::vector<Block*> chain() override {
    if (!kind_.is_language_model()) refuse_head("'pp'");
    return transformer_->chain();
  }
  at::Tensor tied_weight() override {
    return head_ ? at::Tensor() : transformer_->token_embedding();
  }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return default_task_; }
  void validate_input(const DataShape& data) const override { check_length(kName, longest_, data); }
  TextOutput text_output() const override {
    return kind_.is_language_model() ? TextOutput::kNextToken : text_output_of(kind_.kind);
  }

 private:
  [[noreturn]] void refuse_head(const char* options) const {
    throw Error(
        ExitCode::kRecipe,
        text("{} does not support the head '{}' of gpt", options, gpt_head_layer(kind_.kind)),
        text("leave {} out", options));
  }
  HeadAdapter head_adapter() const {
    if (!kind_.is_language_model()) return {};
    return head_ ? head_->head_adapter() : tied_head_->head_adapter();
  }

  std::shared_ptr<torch::nn::Module> net_;
  std::shared_ptr<GptTransformer> transformer_;
  DecoderHead kind_;
  const char* default_task_ = "";
  AdaptedLinear head_{nullptr};  ///< lm_head, or gpt_head_layer()
  TiedHead tied_head_{nullptr};  ///< instead of lm_head
  int64_t num_heads_;
  double attention_dropout_;
  int64_t longest_ = 0;
};

TensorPlan Gpt::tensor_plan(int64_t ranks) const {
  using enum TensorStyle;
  if (!kind_.is_language_model()) refuse_head("'tp'");
  check_divides("num_heads", num_heads_, ranks);
  TensorPlan plan = {
      {"transformer.wte", kEmbeddingRowwise},       {"transformer.wpe", kSequenceParallel},
      {"transformer.h.*.attn.c_attn", kColwise, 3}, {"transformer.h.*.attn.c_proj", kRowwise},
      {"transformer.h.*.mlp.c_fc", kColwise},       {"transformer.h.*.mlp.c_proj", kRowwise},
      {"transformer.h.*.ln_1", kSequenceParallel},  {"transformer.h.*.ln_2", kSequenceParallel},
      {"transformer.ln_f", kSequenceParallel}};
  if (head_) plan.push_back({"lm_head", kColwise});
  return plan;
}

const RegisterPretrained<Gpt> gpt;

}  // namespace
}  // namespace accel
