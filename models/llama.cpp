// Llama, Mistral, Mixtral, Qwen2, Qwen3 and Qwen3-MoE: causal transformers with rotary positions,
// RMS norm, gated MLPs and grouped-query attention. Parameter names are Hugging Face's.
#include <ATen/ops/arange.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/api/auxiliary_loss.h"
#include "core/api/block.h"
#include "core/api/packed_sequences.h"
#include "core/api/sequence_pairs.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "models/hf/hf_family.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/context_parallel.h"
#include "models/layers/decoding.h"
#include "models/layers/expert_routing.h"
#include "models/layers/input_spec.h"
#include "models/layers/rope.h"
#include "models/layers/self_attention.h"
#include "models/layers/sizes.h"
#include "models/layers/tensor_parallel.h"
#include "models/llama_block.h"
#include "models/llama_options.h"

namespace accel {
namespace {

constexpr double kLlamaWeightDeviation = 0.02;

class LlamaBody final : public torch::nn::Module {
 public:
  LlamaBody(int64_t vocab, const LlamaOptions& options, const ModelContext& context)
      : rope_(options.rope, options.per_head()),
        ranks_(context.tensor),
        vocab_(vocab),
        embed_tokens_(
            register_module("embed_tokens", torch::nn::Embedding(vocab, options.hidden_size))),
        is_tied_(options.tie_embeddings) {
    torch::nn::ModuleList list;
    for (int64_t i = 0; i < options.num_layers; ++i) {
      blocks_.push_back(std::make_shared<LlamaBlock>(options, i, context));
      list->push_back(blocks_.back());
    }
    register_module("layers", list);
    norm_ =
        register_module("norm", std::make_shared<LlamaNorm>(options.hidden_size, options.norm_eps));
  }

  /// `seen`: cache of the preceding tokens, extended by `tokens`; null: no cache.
  at::Tensor forward(const at::Tensor& tokens, KeyValueCache* seen, const LoadBalance& balance) {
    const ContextRanksPtr context = seen ? nullptr : dividing(context_);
    if (context) return run_divided(tokens, {}, {.ranks = context}, balance);
    const int64_t first = seen ? seen->length() : 0;
    const at::Tensor padded = padded_sequence(ranks_, tokens, 0);
    const RopeTurns turns = rope_.turns(first, padded.size(1), tokens.device());
    return unpadded(run(padded, turns, {}, seen, balance), tokens.size(1));
  }
  at::Tensor forward_packed(const at::Tensor& tokens, const at::Tensor& segments,
                            const LoadBalance& balance) {
    if (const ContextRanksPtr context = dividing(context_)) {
      const at::Tensor starts = text_starts(segments);
      return run_divided(tokens, starts, visible_in_texts(context, starts), balance);
    }
    const at::Tensor padded = padded_sequence(ranks_, tokens, 0);
    const BlockDiagonalMask apart = block_diagonal_mask(padded_sequence(ranks_, segments, -1));
    const RopeTurns turns = turns_of(apart.positions, padded.size(1));
    return unpadded(run(padded, turns, {.mask = apart.mask}, nullptr, balance), tokens.size(1));
  }

  DividedVocabulary vocabulary() const { return {ranks_.get(), vocab_}; }

  void divide_sequences(ContextRanksPtr ranks) { context_ = std::move(ranks); }
  const ContextRanks* context_ranks() const { return context_.get(); }

  const at::Tensor& token_embedding() const { return embed_tokens_->weight; }
  std::vector<Block*> chain() const { return block_chain(blocks_); }
  /// Of the layers that have some.
  std::vector<LlamaExperts*> experts() const {
    std::vector<LlamaExperts*> out;
    for (const auto& block : blocks_) {
      if (block->experts()) out.push_back(block->experts());
    }
    return out;
  }

 private:
  /// Of positions [batch, tokens], below `length`: [batch, 1, tokens, width].
  RopeTurns turns_of(const at::Tensor& positions, int64_t length) const {
    RopeTurns turns = rope_.turns(0, length, positions.device());
    for (at::Tensor* part : {&turns.cosines, &turns.sines}) {
      *part = part->index({positions}).unsqueeze(1);
    }
    return turns;
  }

  /// This rank's positions of a sequence, of one text or of texts with these `starts`.
  at::Tensor run_divided(const at::Tensor& tokens, const at::Tensor& starts,
                         const VisibleKeys& visible, const LoadBalance& balance) {
    const ContextRanks* const context = visible.ranks.get();
    const auto stream = is_training() ? context->own_random_stream(tokens.device()) : nullptr;
    at::Tensor positions = at::arange(tokens.size(1), tokens.options()).unsqueeze(0);
    if (starts.defined()) positions = positions.sub(starts);
    const RopeTurns turns = turns_of(own_positions(context, positions, 1, 0), tokens.size(1));
    return run(own_positions(context, tokens, 1, 0), turns, visible, nullptr, balance);
  }

  at::Tensor run(const at::Tensor& tokens, const RopeTurns& turns, const VisibleKeys& visible,
                 KeyValueCache* seen, const LoadBalance& balance) {
    at::Tensor x = chain_input(*blocks_.front(), [&] {
      return vocabulary_embedding(vocabulary(), embed_tokens_->weight, tokens, is_tied_);
    });
    for (size_t i = 0; i < blocks_.size(); ++i) {
      x = run_block(*blocks_[i], x, turns, visible, seen ? &seen->layer(i) : nullptr, balance);
    }
    return enter(ranks_, norm_->forward(x));
  }

  Rope rope_;
  TensorRanksPtr ranks_;
  ContextRanksPtr context_;
  int64_t vocab_;
  torch::nn::Embedding embed_tokens_;
  bool is_tied_;
  std::vector<std::shared_ptr<LlamaBlock>> blocks_;
  std::shared_ptr<LlamaNorm> norm_;
};

/// 1 for tokens and 0 for padding, float32 [batch, length].
at::Tensor token_mask(const Batch& batch) {
  const at::Tensor positions = at::arange(batch.inputs.size(1), batch.lengths.options());
  return positions.lt(batch.lengths.unsqueeze(1)).to(at::kFloat);
}

class Llama final : public LanguageModel,
                    public CachedDecoder,
                    public PackedSequences,
                    public TensorParallel,
                    public ExpertParallel,
                    public ContextParallel,
                    public AuxiliaryLoss,
                    public ExpertBalance,
                    public BlockChain,
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
      : net_(std::make_shared<torch::nn::Module>()), options_(options), tensor_(context.tensor) {
    const DataShape& data = context.data;
    require_tokens(kName, data);
    const int64_t length = data.input.empty() ? 0 : data.input[0];
    const int64_t vocab = sufficient_size({kName, "vocab_size", options.vocab_size, data.vocab});
    longest_ = sufficient_size({kName, "max_seq_len", options.max_seq_len, length});
    body_ = net_->register_module("model", std::make_shared<LlamaBody>(vocab, options, context));
    if (options.has_score()) {
      head_ = llama_linear(*net_, "score", options.hidden_size, *options.num_classes, false);
    } else if (!options.tie_embeddings) {
      head_ = llama_linear(*net_, "lm_head", options.hidden_size, vocab, false);
    }
    default_task_ = !options.has_score()       ? "causal_lm"
                    : has_sequence_pairs(data) ? "reward"
                    : data.classes > 0         ? "classification"
                                               : "regression";
    for (const auto& module : net_->modules(false)) {
      if (auto* linear = module->as<torch::nn::Linear>()) {
        torch::nn::init::normal_(linear->weight, 0.0, kLlamaWeightDeviation);
        if (linear->bias.defined()) torch::nn::init::zeros_(linear->bias);
      } else if (auto* embedding = module->as<torch::nn::Embedding>()) {
        torch::nn::init::normal_(embedding->weight, 0.0, kLlamaWeightDeviation);
      }
    }
  }

  /// Logits of the next token; with `num_classes`, outputs at the last token, [batch, classes].
  at::Tensor forward(const at::Tensor& tokens) override {
    if (options_.has_score()) return head_->forward(hidden(tokens).select(1, tokens.size(1) - 1));
    return vocabulary_logits(vocabulary(), hidden(tokens), head_weight());
  }
  at::Tensor forward_batch(const Batch& batch) override {
    if (!options_.has_score() || !batch.lengths.defined()) return forward(batch.inputs);
    const at::Tensor all = hidden(batch.inputs);
    const at::Tensor last = batch.lengths.sub(1).view({-1, 1, 1}).expand({-1, 1, all.size(2)});
    return head_->forward(all.gather(1, last).squeeze(1));
  }
  at::Tensor hidden(const at::Tensor& tokens) override {
    return balanced(tokens, [&](const LoadBalance& balance) {
      return body_->forward(tokens, nullptr, balance);
    });
  }
  at::Tensor hidden_next(const at::Tensor& tokens, KeyValueCache& cache) override {
    return body_->forward(tokens, &cache, {});
  }
  at::Tensor forward_packed(const at::Tensor& tokens, const at::Tensor& segments) override {
    return balanced(tokens, [&](const LoadBalance& balance) {
      return body_->forward_packed(tokens, segments, balance);
    });
  }
  void begin_batch(const Batch& batch) override {
    balance_loss_.reset();
    counted_tokens_ = batch.lengths.defined() ? token_mask(batch) : at::Tensor();
  }
  at::Tensor auxiliary_loss() override { return std::exchange(balance_loss_, {}); }
  StageLossSizes stage_loss_sizes() const override {
    const int64_t experts = options_.moe.num_experts;
    return options_.balance() > 0 ? StageLossSizes{2 * experts + 1, experts} : StageLossSizes();
  }
  void begin_stage(const at::Tensor& sums) override { preceding_sums_ = sums; }
  std::shared_ptr<StageLoss> end_stage() override;
  std::map<std::string, double> balance_experts(
      const std::function<void(const at::Tensor&)>& sum) override;
  int64_t longest() const override { return longest_; }
  TensorPlan tensor_plan(int64_t ranks) const override;
  DividedVocabulary vocabulary() const override { return body_->vocabulary(); }
  int64_t num_experts() const override { return options_.moe.num_experts; }
  std::optional<int64_t> expert_of(const std::string& parameter) const override;
  void divide_sequences(ContextRanksPtr ranks) override;
  const ContextRanks* context_ranks() const override { return body_->context_ranks(); }
  at::Tensor head_weight() override {
    if (options_.has_score()) {
      throw Error(ExitCode::kRecipe,
                  "this llama has outputs per text ('num_classes') and no logits of tokens",
                  "name a language model");
    }
    return head_ ? head_->weight : body_->token_embedding();
  }
  std::vector<Block*> chain() override {
    if (options_.has_score()) {
      throw Error(ExitCode::kRecipe, "'pp' does not support 'num_classes' of llama",
                  "leave 'pp' out");
    }
    return body_->chain();
  }
  at::Tensor tied_weight() override { return head_ ? at::Tensor() : body_->token_embedding(); }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return default_task_; }
  void validate_input(const DataShape& data) const override { check_length(kName, longest_, data); }
  TextOutput text_output() const override {
    return options_.has_score() ? TextOutput::kWhole : TextOutput::kNextToken;
  }

 private:
  /// Adds the load-balancing loss of a forward pass in training.
  template <class Pass>
  at::Tensor balanced(const at::Tensor& tokens, const Pass& pass) {
    const bool balances = options_.balance() > 0 || options_.moe.bias_update_rate > 0;
    if (!balances || !net_->is_training() || !at::GradMode::is_enabled()) {
      return pass(LoadBalance());
    }
    const LoadBalance balance(options_.balance(), counted_tokens(tokens),
                              {.tensor = tensor_ ? tensor_->size() : 1,
                               .context = body_->context_ranks(),
                               .sums = std::exchange(preceding_sums_, {})});
    if (options_.balance() > 0) balance_ = balance;
    auto [output, loss] = balance.finish(pass(balance));
    balance_loss_ = balance_loss_.defined() ? balance_loss_.add(loss) : loss;
    return output;
  }

  /// float32 [tokens]: 0 for padding, also that of sequence and context parallelism; undefined: no
  /// padding.
  at::Tensor counted_tokens(const at::Tensor& tokens) const {
    const int64_t length = tokens.size(1);
    const ContextRanks* const context = body_->context_ranks();
    const int64_t padded = context   ? context->padded_length(length)
                           : tensor_ ? tensor_->padded_length(length)
                                     : length;
    at::Tensor counted = counted_tokens_;
    if (!counted.defined() && padded > length) {
      counted = at::ones(tokens.sizes(), tokens.options().dtype(at::kFloat));
    }
    if (!counted.defined()) return counted;
    return (context ? own_positions(context, counted, 1, 0) : padded_sequence(tensor_, counted, 0))
        .flatten();
  }

  std::shared_ptr<torch::nn::Module> net_;
  std::shared_ptr<LlamaBody> body_;
  LlamaOptions options_;
  TensorRanksPtr tensor_;
  at::Tensor counted_tokens_;  ///< float32 [batch, length]: 0 for padding; undefined: no padding
  at::Tensor balance_loss_;    ///< of the passes since begin_batch()
  at::Tensor preceding_sums_;  ///< see begin_stage()
  std::optional<LoadBalance> balance_;  ///< of the last pass, with a loss
  AdaptedLinear head_{nullptr};         ///< lm_head, or score
  const char* default_task_;
  int64_t longest_ = 0;
};

/// The load-balancing loss in a stage.
class BalanceOfStage final : public StageLoss {
 public:
  BalanceOfStage(LoadBalance balance, at::Tensor sums)
      : balance_(std::move(balance)), sums_(std::move(sums)) {}
  at::Tensor sums() const override { return sums_; }
  at::Tensor gradient() const override { return balance_.gradient(); }
  void set_gradient(const at::Tensor& gradient) override { balance_.set_gradient(gradient); }

 private:
  LoadBalance balance_;
  at::Tensor sums_;
};

std::shared_ptr<StageLoss> Llama::end_stage() {
  if (!balance_) return nullptr;
  const LoadBalance balance = *std::exchange(balance_, std::nullopt);
  balance.end_stage();
  at::Tensor sums = balance.sums();
  // No layer up to the stage's last one has experts.
  if (!sums.defined()) {
    sums = at::zeros({2 * options_.moe.num_experts + 1}, body_->token_embedding().device());
  }
  return std::make_shared<BalanceOfStage>(balance, sums);
}

std::map<std::string, double> Llama::balance_experts(
    const std::function<void(const at::Tensor&)>& sum) {
  if (options_.moe.bias_update_rate == 0) return {};
  const std::vector<LlamaExperts*> layers = body_->experts();
  std::vector<at::Tensor> own;
  for (const LlamaExperts* layer : layers) own.push_back(layer->load());
  const at::Tensor loads = at::stack(own);
  sum(loads);
  int64_t row = 0;
  for (LlamaExperts* layer : layers) layer->change_bias(loads[row++]);
  return relative_loads(loads);
}

std::optional<int64_t> Llama::expert_of(const std::string& parameter) const {
  static constexpr std::string_view kList = ".mlp.experts.";
  const size_t at = parameter.find(kList);
  return at == parameter.npos ? std::nullopt
                              : std::optional(std::stoll(parameter.substr(at + kList.size())));
}

/// transformers' plan, with a vocabulary-parallel embedding and loss.
TensorPlan Llama::tensor_plan(int64_t ranks) const {
  using enum TensorStyle;
  if (options_.has_score()) {
    throw Error(ExitCode::kRecipe, "'tp' does not support 'num_classes' of llama",
                "leave 'tp' out");
  }
  if (options_.moe.num_experts > 0 && options_.mlp_bias) {
    throw Error(ExitCode::kRecipe, "'tp' does not support 'mlp_bias' with 'moe'",
                "leave one of the three out");
  }
  check_divides("num_heads", options_.num_heads, ranks);
  const bool repeated = options_.groups() < ranks;  // key and value heads
  if (!repeated) check_divides("num_kv_heads", options_.groups(), ranks);
  if (repeated && ranks % options_.groups() != 0) {
    throw Error(ExitCode::kRecipe,
                text("'tp' {} is not a multiple of the model's 'num_kv_heads' {}", ranks,
                     options_.groups()),
                "use a divisor or a multiple of it");
  }
  const TensorStyle keys = repeated ? kReplicatedWithGradAllReduce : kColwise;
  TensorPlan plan = {{"model.embed_tokens", kEmbeddingRowwise},
                     {"model.layers.*.self_attn.q_proj", kColwise},
                     {"model.layers.*.self_attn.k_proj", keys},
                     {"model.layers.*.self_attn.v_proj", keys},
                     {"model.layers.*.self_attn.o_proj", kRowwise},
                     {"model.layers.*.input_layernorm", kSequenceParallel},
                     {"model.layers.*.post_attention_layernorm", kSequenceParallel},
                     {"model.norm", kSequenceParallel}};
  const auto add_mlp = [&](const std::string& mlp) {
    plan.push_back({mlp + ".gate_proj", kColwise});
    plan.push_back({mlp + ".up_proj", kColwise});
    plan.push_back({mlp + ".down_proj", kRowwise});
  };
  int64_t with_experts = 0;
  for (int64_t i = 0; i < options_.num_layers; ++i) with_experts += options_.moe.has_experts(i);
  if (with_experts < options_.num_layers) add_mlp("model.layers.*.mlp");
  if (with_experts > 0) {
    add_mlp("model.layers.*.mlp.experts.*");
    plan.push_back({"model.layers.*.mlp.gate", kReplicatedWithGradAllReduce});
  }
  if (options_.qk_norm) {
    plan.push_back({"model.layers.*.self_attn.q_norm", kReplicatedWithGradAllReduce});
    plan.push_back({"model.layers.*.self_attn.k_norm", kReplicatedWithGradAllReduce});
  }
  if (!options_.tie_embeddings) plan.push_back({"lm_head", kColwise});
  return plan;
}

void Llama::divide_sequences(ContextRanksPtr ranks) {
  check_divides_sequences(*ranks, options_.num_heads, options_.groups(),
                          options_.attention_dropout);
  body_->divide_sequences(std::move(ranks));
}

const RegisterPretrained<Llama> llama;

}  // namespace
}  // namespace accel
