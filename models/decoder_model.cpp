#include "models/decoder_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <torch/nn/init.h>
#include <torch/nn/modules/container/modulelist.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "models/layers/activation_checkpoint.h"
#include "models/layers/self_attention.h"
#include "models/layers/sizes.h"
#include "models/layers/token_logits.h"

namespace accel {
namespace {

constexpr double kDecoderDeviation = 0.02;

void initialise_layer(torch::nn::Module& layer) {
  if (auto* linear = layer.as<torch::nn::Linear>()) {
    torch::nn::init::normal_(linear->weight, 0.0, kDecoderDeviation);
    if (linear->bias.defined()) torch::nn::init::zeros_(linear->bias);
  } else if (auto* embedding = layer.as<torch::nn::Embedding>()) {
    torch::nn::init::normal_(embedding->weight, 0.0, kDecoderDeviation);
    const auto pad = embedding->options.padding_idx();
    if (pad) embedding->weight[*pad].zero_();
  }
}

}  // namespace

void initialise_decoder(torch::nn::Module& body) {
  const torch::NoGradGuard no_grad;
  for (const auto& layer : body.modules(/*include_self=*/false)) initialise_layer(*layer);
}

AdaptedLinear decoder_output(torch::nn::Module& in, const char* name,
                             const torch::nn::LinearOptions& options, const TensorRanksPtr& ranks) {
  AdaptedLinear layer = in.register_module(name, AdaptedLinear(options));
  layer->divide_inputs(ranks);
  return layer;
}

at::Tensor attend(const DecoderHeads& heads, const DecoderPass& pass, LayerCache* seen,
                  double dropout, const TensorRanksPtr& ranks) {
  const at::Tensor query = Rope::turn(heads.query, pass.turns);
  const at::Tensor key = Rope::turn(heads.key, pass.turns);
  at::Tensor y;
  if (seen) {
    y = seen->attend(query, key, heads.value);
  } else {
    const auto stream = own_random_stream(ranks, query.device(), dropout > 0);
    y = attend(query, key, heads.value, pass.visible, {.dropout = dropout});
  }
  return y.transpose(1, 2).flatten(2);
}

void DecoderBody::add_blocks(const char* name, std::vector<std::shared_ptr<DecoderBlock>> blocks) {
  blocks_ = std::move(blocks);
  torch::nn::ModuleList list;
  for (const auto& block : blocks_) list->push_back(block);
  register_module(name, list);
}

at::Tensor DecoderBody::forward(const at::Tensor& tokens, KeyValueCache* seen) {
  const at::Tensor positions =
      seen ? seen->positions(tokens) : at::arange(tokens.size(1), tokens.options());
  const ContextRanksPtr context = seen ? nullptr : dividing(context_);
  return context ? run_divided(tokens, positions, {.ranks = context})
                 : run(tokens, padded_sequence(ranks_, positions, 0), seen, {});
}

at::Tensor DecoderBody::forward_packed(const at::Tensor& tokens, const at::Tensor& segments) {
  if (const ContextRanksPtr context = dividing(context_)) {
    const at::Tensor starts = text_starts(segments);
    const at::Tensor positions = at::arange(segments.size(1), segments.options()).sub(starts);
    return run_divided(tokens, positions, visible_in_texts(context, starts));
  }
  const BlockDiagonalMask apart = block_diagonal_mask(padded_sequence(ranks_, segments, -1));
  return run(tokens, apart.positions, nullptr, {.mask = apart.mask});
}

/// `positions` are of the whole sequence.
at::Tensor DecoderBody::run_divided(const at::Tensor& tokens, const at::Tensor& positions,
                                    const VisibleKeys& visible) {
  const ContextRanks* const context = visible.ranks.get();
  const auto stream = is_training() ? context->own_random_stream(tokens.device()) : nullptr;
  return run(own_positions(context, tokens, 1, 0),
             own_positions(context, positions, positions.dim() - 1, 0), nullptr, visible);
}

/// Positions and mask are of the padded sequence.
at::Tensor DecoderBody::run(const at::Tensor& tokens, const at::Tensor& positions,
                            KeyValueCache* seen, const VisibleKeys& visible) {
  const DecoderPass pass{turns_of(positions.dim() == 1 ? positions.unsqueeze(0) : positions),
                         visible};
  at::Tensor x = chain_input(
      *blocks_.front(), [&] { return embedded(padded_sequence(ranks_, tokens, 0), positions); });
  for (size_t i = 0; i < blocks_.size(); ++i) {
    x = run_block(*blocks_[i], x, pass, seen ? &seen->layer(i) : nullptr);
  }
  return unpadded(finished(x), tokens.size(1));
}

DecoderModel::DecoderModel(const DecoderSetup& setup, const ModelContext& context,
                           const MakeBody& make_body)
    : setup_(setup), default_task_(setup.head.default_task(context.data)) {
  const DataShape& data = context.data;
  const DecoderHead& head = setup.head;
  require_tokens(head.model, data);
  const int64_t length = data.input.empty() ? 0 : data.input[0];
  const int64_t vocab = sufficient_size({head.model, "vocab_size", setup.vocab_size, data.vocab});
  longest_ = sufficient_size({head.model, "max_seq_len", setup.max_seq_len, length});
  std::string name = setup.base;
  torch::nn::Module* in = net_.get();
  for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.')) {
    in = in->register_module(name.substr(0, dot), std::make_shared<torch::nn::Module>()).get();
    name.erase(0, dot + 1);
  }
  body_ = in->register_module(name, make_body(vocab, longest_));
  if (head.is_language_model() && setup.tie_embeddings) {
    tied_head_ = net_->register_module("lm_head", TiedHead(setup.head_inputs, vocab));
    return;
  }
  const bool of_tokens = head.is_language_model();
  const auto options =
      torch::nn::LinearOptions(setup.head_inputs, of_tokens ? vocab : head.outputs(data))
          .bias(head.kind == EncoderHead::kLabels || head.kind == EncoderHead::kSpan);
  head_ = net_->register_module(of_tokens ? "lm_head" : decoder_head_layer(head.kind),
                                AdaptedLinear(options));
  initialise_layer(*head_);
}

at::Tensor DecoderModel::forward(const at::Tensor& tokens) {
  if (!setup_.head.is_language_model()) return forward_batch({tokens, {}, {}});
  return token_logits(*this, hidden(tokens));
}

at::Tensor DecoderModel::forward_batch(const Batch& batch) {
  if (setup_.head.is_language_model()) return forward(batch.inputs);
  return setup_.head.forward(*head_, hidden(batch.inputs), batch);
}

at::Tensor DecoderModel::hidden(const at::Tensor& tokens) {
  return head_adapter().widened_inputs(body_->forward(tokens, nullptr));
}

at::Tensor DecoderModel::hidden_next(const at::Tensor& tokens, KeyValueCache& cache) {
  return head_adapter().widened_inputs(body_->forward(tokens, &cache));
}

at::Tensor DecoderModel::forward_packed(const at::Tensor& tokens, const at::Tensor& segments) {
  return head_adapter().widened_inputs(body_->forward_packed(tokens, segments));
}

TensorPlan DecoderModel::tensor_plan(int64_t ranks) const {
  if (!setup_.head.is_language_model()) refuse_head("'tp'");
  check_divides("num_heads", setup_.num_heads, ranks);
  TensorPlan plan = body_plan();
  for (TensorPlanEntry& entry : plan) entry.layer = std::string(setup_.base) + "." + entry.layer;
  if (head_ || tied_head_->is_adapted()) plan.push_back({"lm_head", TensorStyle::kColwise});
  return plan;
}

void DecoderModel::divide_sequences(ContextRanksPtr ranks) {
  if (!setup_.head.is_language_model()) refuse_head("'cp' and 'sp'");
  check_divides_sequences(*ranks, setup_.num_heads, setup_.num_heads,
                          {.dropout = setup_.attention_dropout});
  body_->divide_sequences(std::move(ranks));
}

at::Tensor DecoderModel::head_weight() {
  if (!setup_.head.is_language_model()) {
    throw Error(ExitCode::kRecipe,
                text("this {} has the head '{}' and no logits of tokens", setup_.head.model,
                     decoder_head_layer(setup_.head.kind)),
                "name a language model");
  }
  return language_head()->weight();
}

std::optional<LanguageHead> DecoderModel::language_head() const {
  if (!setup_.head.is_language_model()) return std::nullopt;
  return head_ ? LanguageHead(head_) : LanguageHead(tied_head_, body_->token_embedding());
}

std::vector<Block*> DecoderModel::chain() {
  if (!setup_.head.is_language_model()) refuse_head("'pp'");
  return body_->chain();
}

void DecoderModel::validate_input(const DataShape& data) const {
  check_length(setup_.head.model, longest_, data);
}

TextOutput DecoderModel::text_output() const {
  return setup_.head.is_language_model() ? TextOutput::kNextToken
                                         : text_output_of(setup_.head.kind);
}

void DecoderModel::refuse_head(const char* options) const {
  throw Error(ExitCode::kRecipe,
              text("the head '{}' of {} does not support {}", decoder_head_layer(setup_.head.kind),
                   setup_.head.model, options),
              text("leave {} out", options));
}

}  // namespace accel
