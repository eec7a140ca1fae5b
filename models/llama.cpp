// Llama, Mistral, Mixtral, Qwen, Phi-3, SmolLM3 and Gemma: causal transformers with rotary
// positions, RMS norm, gated MLPs and grouped-query attention. Parameter names are Hugging Face's.
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/stack.h>
#include <torch/nn/init.h>
#include <torch/nn/module.h>
#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>

#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/api/auxiliary_loss.h"
#include "core/api/block.h"
#include "core/api/packed_sequences.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "models/decoder_head.h"
#include "models/hf/problem_type.h"
#include "models/hf/register_pretrained.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/adapted_embedding.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/context_parallel.h"
#include "models/layers/decoding.h"
#include "models/layers/embedding_noise.h"
#include "models/layers/expert_routing.h"
#include "models/layers/input_spec.h"
#include "models/layers/language_head.h"
#include "models/layers/logit_softcap.h"
#include "models/layers/rope.h"
#include "models/layers/self_attention.h"
#include "models/layers/sizes.h"
#include "models/layers/tensor_parallel.h"
#include "models/layers/token_logits.h"
#include "models/llama_block.h"
#include "models/llama_options.h"

namespace accel {
namespace {

constexpr double kLlamaWeightDeviation = 0.02;

torch::nn::EmbeddingOptions embedding_of(const LlamaOptions& options, int64_t vocab) {
  const bool is_token = options.pad.value_or(vocab) < vocab;  // transformers' default may be none
  return torch::nn::EmbeddingOptions(vocab, options.hidden_size)
      .padding_idx(is_token ? options.pad.value : std::nullopt);
}

class LlamaBody final : public torch::nn::Module {
 public:
  LlamaBody(int64_t vocab, const LlamaOptions& options, const ModelContext& context)
      : options_(options),
        rope_(options.rope, options.per_head()),
        local_rope_(options.local_rope(), options.per_head()),
        ranks_(context.tensor),
        vocab_(vocab),
        embed_tokens_(
            register_module("embed_tokens", AdaptedEmbedding(embedding_of(options, vocab)))) {
    torch::nn::ModuleList list;
    for (int64_t i = 0; i < options.num_layers; ++i) {
      blocks_.push_back(std::make_shared<LlamaBlock>(options, i, context));
      list->push_back(blocks_.back());
    }
    register_module("layers", list);
    norm_ = register_module("norm", std::make_shared<LlamaNorm>(options.hidden_size, options));
  }

  at::Tensor forward(const at::Tensor& tokens, const LoadBalance& balance) {
    if (const ContextRanksPtr context = dividing(context_)) {
      return run_divided(tokens, {}, {.ranks = context}, balance);
    }
    return run_from(0, tokens, nullptr, balance);
  }
  /// `seen`: cache of the preceding tokens, extended by `tokens`.
  at::Tensor forward_next(const at::Tensor& tokens, KeyValueCache& seen) {
    if (!rope_.depends_on_length()) return run_from(seen.length(), tokens, &seen, {});
    const int64_t before = seen.length();
    seen.tokens = before > 0 ? at::cat({seen.tokens, tokens}, 1) : tokens;
    if (before == 0 || !rope_.changes_between(before, seen.tokens.size(1))) {
      return run_from(before, tokens, &seen, {});
    }
    // Cached keys have the frequencies of a shorter sequence.
    seen.clear();
    return run_from(0, seen.tokens, &seen, {}).narrow(1, before, tokens.size(1));
  }
  at::Tensor forward_packed(const at::Tensor& tokens, const at::Tensor& segments,
                            const LoadBalance& balance) {
    if (const ContextRanksPtr context = dividing(context_)) {
      const at::Tensor starts = text_starts(segments);
      return run_divided(tokens, starts, visible_in_texts(context, starts), balance);
    }
    const at::Tensor padded = padded_sequence(ranks_, tokens, 0);
    const BlockDiagonalMask apart = block_diagonal_mask(padded_sequence(ranks_, segments, -1));
    const LlamaPass pass = pass_at(apart.positions, apart.positions, {.mask = apart.mask});
    return unpadded(run(padded, pass, nullptr, balance), tokens.size(1));
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
  /// `turns` returns the rotary positions of a Rope.
  template <class Turns>
  LlamaPass pass_with(const Turns& turns, const VisibleKeys& visible, int64_t length) const {
    LlamaPass pass{turns(rope_), {}, visible, visible};
    pass.local_turns = options_.local_rope_theta ? turns(local_rope_) : pass.turns;
    const int64_t window = options_.sliding_window.value_or(0);
    if (window == 0 || window >= length) return pass;
    const at::Device device = embed_tokens_->weight.device();
    if (visible.ranks) {
      pass.local_visible =
          visible_in_window(visible, length, window, at::TensorOptions(at::kLong).device(device));
      return pass;
    }
    const at::Tensor mask = window_mask(length, window, device);
    pass.local_visible.mask = visible.mask.defined() ? visible.mask.logical_and(mask) : mask;
    return pass;
  }
  /// Of the positions that a rank has of all, [batch, tokens]: turns are [batch, 1, tokens,
  /// width]. Those that depend on the length of a text are the same on all ranks.
  LlamaPass pass_at(const at::Tensor& positions, const at::Tensor& all_positions,
                    const VisibleKeys& visible) const {
    const int64_t length = all_positions.size(1);
    const bool is_read = rope_.depends_on_length() && !positions.is_meta();
    const int64_t longest = is_read ? all_positions.max().item<int64_t>() + 1 : length;
    const auto turns = [&](const Rope& rope) {
      RopeTurns all = rope.turns(0, length, longest, positions.device());
      for (at::Tensor* part : {&all.cosines, &all.sines}) {
        *part = part->index({positions}).unsqueeze(1);
      }
      return all;
    };
    return pass_with(turns, visible, length);
  }

  /// Tokens of one text whose first `first` are in `seen`, or of rows of `seen`.
  at::Tensor run_from(int64_t first, const at::Tensor& tokens, KeyValueCache* seen,
                      const LoadBalance& balance) {
    const at::Tensor padded = padded_sequence(ranks_, tokens, 0);
    const bool is_ragged = seen && !seen->has_equal_rows(tokens.size(0));
    const at::Tensor positions = is_ragged ? seen->positions(padded) : at::Tensor();
    const auto turns = [&](const Rope& rope) {
      if (is_ragged) return rope.turns_of_rows(positions);
      return rope.turns(first, padded.size(1), first + tokens.size(1), tokens.device());
    };
    const LlamaPass pass = pass_with(turns, {}, seen ? 0 : padded.size(1));
    return unpadded(run(padded, pass, seen, balance), tokens.size(1));
  }

  /// This rank's positions of a sequence, of one text or of texts with these `starts`.
  at::Tensor run_divided(const at::Tensor& tokens, const at::Tensor& starts,
                         const VisibleKeys& visible, const LoadBalance& balance) {
    const ContextRanks* const context = visible.ranks.get();
    const auto stream = is_training() ? context->own_random_stream(tokens.device()) : nullptr;
    at::Tensor positions = at::arange(tokens.size(1), tokens.options()).unsqueeze(0);
    if (starts.defined()) positions = positions.sub(starts);
    const LlamaPass pass = pass_at(own_positions(context, positions, 1, 0), positions, visible);
    return run(own_positions(context, tokens, 1, 0), pass, nullptr, balance);
  }

  at::Tensor embedded(const at::Tensor& tokens) const {
    const at::Tensor x =
        embed_tokens_->adapted(vocabulary_embedding(vocabulary(), embed_tokens_->weight, tokens,
                                                    options_.tie_embeddings, options_.pad.value),
                               own_part(ranks_, tokens, 1));
    if (!options_.scale_embeddings) return with_embedding_noise(x);
    // Rounded to the type of the weight, as in transformers, where noise is added after the scale.
    const double root = std::sqrt(static_cast<double>(options_.hidden_size));
    return with_embedding_noise(
        x.mul(at::scalar_tensor(root, at::kDouble).to(embed_tokens_->weight.scalar_type())));
  }

  at::Tensor run(const at::Tensor& tokens, const LlamaPass& pass, KeyValueCache* seen,
                 const LoadBalance& balance) {
    at::Tensor x = chain_input(*blocks_.front(), [&] { return embedded(tokens); });
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const auto layer = static_cast<int64_t>(i);
      const bool slides = options_.slides(layer);
      const RopeTurns turns = !options_.has_positions(layer) ? RopeTurns()
                              : slides                       ? pass.local_turns
                                                             : pass.turns;
      x = run_block(*blocks_[i], x, turns, slides ? pass.local_visible : pass.visible,
                    seen ? &seen->layer(i) : nullptr, balance);
    }
    return enter(ranks_, norm_->forward(x));
  }

  LlamaOptions options_;
  Rope rope_, local_rope_;  ///< of layers without and with a window
  TensorRanksPtr ranks_;
  ContextRanksPtr context_;
  int64_t vocab_;
  AdaptedEmbedding embed_tokens_;
  std::vector<std::shared_ptr<LlamaBlock>> blocks_;
  std::shared_ptr<LlamaNorm> norm_;
};

/// Ends the counting of a pass, also where it ends with a stage of a pipeline: blocks that the
/// backward pass computes again do not count.
class EndOfPass {
 public:
  explicit EndOfPass(const LoadBalance& balance) : balance_(balance) {}
  ~EndOfPass() { balance_.end_stage(); }
  EndOfPass(const EndOfPass&) = delete;
  EndOfPass& operator=(const EndOfPass&) = delete;

 private:
  const LoadBalance& balance_;
};

/// 1 for tokens and 0 for padding, float32 [batch, length].
at::Tensor token_mask(const Batch& batch) {
  const at::Tensor positions = at::arange(batch.inputs.size(1), batch.lengths.options());
  return positions.lt(batch.lengths.unsqueeze(1)).to(at::kFloat);
}

class Llama final : public LanguageModel,
                    public CachedDecoder,
                    public HasLanguageHead,
                    public SoftcappedLogits,
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
  static constexpr const char* kHintFor[] = {
      "llama2",    "llama3", "mistral", "qwen2",   "qwen3", "mixtral", "qwen2_moe",
      "qwen3_moe", "phi3",   "phi4",    "smollm3", "gemma", "gemma2",  "gemma3_text"};
  static constexpr auto kSummary =
      "A Llama language model, or with a few options a Mistral, Mixtral, Qwen2, Qwen2-MoE, Qwen3, "
      "Qwen3-MoE, "
      "Phi-3, SmolLM3 or Gemma 1 to 3.";
  static constexpr bool kGenerates = true;

  static Schema<LlamaOptions> schema() { return LlamaOptions::schema(); }
  static bool reads(const std::string& type) { return is_llama_type(type); }
  static LlamaOptions from_config(HfConfig& config) { return llama_options_in(config); }
  static void to_config(const LlamaOptions& options, const WeightShapes& shapes,
                        nlohmann::json& config) {
    write_llama_options(options, shapes, config);
  }
  static HfNames names(const LlamaOptions& options) { return options.names(); }
  static GgufModel gguf(const LlamaOptions& options, const nlohmann::json& config,
                        const std::vector<TensorSource>& weights) {
    return llama_gguf(options, config, weights);
  }

  Llama(const LlamaOptions& options, const ModelContext& context)
      : net_(std::make_shared<torch::nn::Module>()),
        options_(options),
        kind_(DecoderHead::of(kName, options)),
        tensor_(context.tensor) {
    const DataShape& data = context.data;
    require_tokens(kName, data);
    const int64_t length = data.input.empty() ? 0 : data.input[0];
    const int64_t vocab = sufficient_size({kName, "vocab_size", options.vocab_size, data.vocab});
    longest_ = sufficient_size({kName, "max_seq_len", options.max_seq_len, length});
    body_ = net_->register_module("model", std::make_shared<LlamaBody>(vocab, options, context));
    if (options.has_score()) {
      const bool has_bias = kind_.kind != EncoderHead::kClasses;
      head_ = llama_linear(*net_, options.head_layer(), options.hidden_size, kind_.outputs(data),
                           has_bias);
    } else if (!options.tie_embeddings) {
      head_ = llama_linear(*net_, "lm_head", options.hidden_size, vocab, false);
    } else {
      tied_head_ = net_->register_module("lm_head", TiedHead(options.hidden_size, vocab));
    }
    default_task_ = kind_.default_task(data);
    const torch::NoGradGuard no_grad;
    for (const auto& module : net_->modules(false)) {
      if (auto* linear = module->as<torch::nn::Linear>()) {
        torch::nn::init::normal_(linear->weight, 0.0, kLlamaWeightDeviation);
        if (linear->bias.defined()) torch::nn::init::zeros_(linear->bias);
      } else if (auto* embedding = module->as<torch::nn::Embedding>()) {
        torch::nn::init::normal_(embedding->weight, 0.0, kLlamaWeightDeviation);
        const auto pad = embedding->options.padding_idx();
        if (pad) embedding->weight[*pad].zero_();
      }
    }
  }

  /// Logits of the next token, or outputs of DecoderHead::forward().
  at::Tensor forward(const at::Tensor& tokens) override {
    if (options_.has_score()) return forward_batch({tokens, {}, {}});
    return token_logits(*this, hidden(tokens));
  }
  at::Tensor forward_batch(const Batch& batch) override {
    if (!options_.has_score()) return forward(batch.inputs);
    return kind_.forward(*head_, hidden(batch.inputs), batch);
  }
  at::Tensor hidden(const at::Tensor& tokens) override {
    return head_adapter().widened_inputs(balanced(
        tokens, [&](const LoadBalance& balance) { return body_->forward(tokens, balance); }));
  }
  at::Tensor hidden_next(const at::Tensor& tokens, KeyValueCache& cache) override {
    return head_adapter().widened_inputs(body_->forward_next(tokens, cache));
  }
  bool supports_ragged_rows() const override { return !options_.rope.depends_on_length(); }
  at::Tensor forward_packed(const at::Tensor& tokens, const at::Tensor& segments) override {
    return head_adapter().widened_inputs(balanced(tokens, [&](const LoadBalance& balance) {
      return body_->forward_packed(tokens, segments, balance);
    }));
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
  double logit_softcap() const override { return options_.final_logit_softcapping.value_or(0); }
  TensorPlan tensor_plan(int64_t ranks) const override {
    TensorPlan plan = llama_tensor_plan(options_, ranks);
    if (tied_head_ && tied_head_->is_adapted()) plan.push_back({"lm_head", TensorStyle::kColwise});
    return plan;
  }
  DividedVocabulary vocabulary() const override { return body_->vocabulary(); }
  int64_t num_experts() const override { return options_.moe.num_experts; }
  std::optional<int64_t> expert_of(const std::string& parameter) const override;
  void divide_sequences(ContextRanksPtr ranks) override;
  const ContextRanks* context_ranks() const override { return body_->context_ranks(); }
  at::Tensor head_weight() override {
    if (options_.has_score()) {
      throw Error(ExitCode::kRecipe,
                  text("this llama has another head ('{}') and no logits of tokens",
                       options_.head_option()),
                  "name a language model");
    }
    return language_head()->weight();
  }
  std::optional<LanguageHead> language_head() const override {
    if (options_.has_score()) return std::nullopt;
    return head_ ? LanguageHead(head_) : LanguageHead(tied_head_, body_->token_embedding());
  }
  std::vector<Block*> chain() override {
    if (options_.has_score()) {
      throw Error(ExitCode::kRecipe,
                  text("'pp' does not support '{}' of llama", options_.head_option()),
                  "leave 'pp' out");
    }
    return body_->chain();
  }
  at::Tensor tied_weight() override {
    return head_ || options_.has_score() ? at::Tensor() : body_->token_embedding();
  }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return default_task_; }
  void validate_input(const DataShape& data) const override { check_length(kName, longest_, data); }
  TextOutput text_output() const override {
    return options_.has_score() ? text_output_of(options_.head_kind()) : TextOutput::kNextToken;
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
    const EndOfPass end(balance);
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
  DecoderHead kind_;
  TensorRanksPtr tensor_;
  at::Tensor counted_tokens_;  ///< float32 [batch, length]: 0 for padding; undefined: no padding
  at::Tensor balance_loss_;    ///< of the passes since begin_batch()
  at::Tensor preceding_sums_;  ///< see begin_stage()
  std::optional<LoadBalance> balance_;  ///< of the last pass, with a loss
  AdaptedLinear head_{nullptr};         ///< lm_head, or score
  TiedHead tied_head_{nullptr};         ///< instead of it
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

void Llama::divide_sequences(ContextRanksPtr ranks) {
  if (options_.has_score()) {
    throw Error(ExitCode::kRecipe,
                text("'cp' and 'sp' do not support '{}' of llama", options_.head_option()),
                "leave 'cp' and 'sp' out");
  }
  check_divides_sequences(*ranks, options_.num_heads, options_.groups(),
                          {.softcap = options_.attn_logit_softcapping.value_or(0),
                           .dropout = options_.attention_dropout});
  body_->divide_sequences(std::move(ranks));
}

const RegisterPretrained<Llama> llama;

}  // namespace
}  // namespace accel
