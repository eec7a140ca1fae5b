#include "models/bert_model.h"

#include <torch/nn/init.h>

#include "core/error.h"
#include "models/sizes.h"

namespace accel {
namespace {

constexpr double kBertWeightDeviation = 0.02;

/// The token that fills, which starts at zero though it is trained; transformers takes the first
/// one, unless it is told another.
int64_t filling_token(const DataShape& data) {
  return data.padding ? data.padding->input : 0;
}

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

/// What the targets ask for.
BertHead head_for(const DataShape& data) {
  if (data.input.empty() || data.target != data.input) return BertHead::kClasses;
  return data.classes > 0 ? BertHead::kLabels : BertHead::kTokens;
}

}  // namespace

BertModel::BertModel(const BertKind& kind, const BertOptions& options, const ModelContext& context)
    : kind_(kind),
      token_activation_(kind.token_activation.value_or(options.activation)),
      head_dropout_(options.head_dropout.value_or(options.dropout)),
      numeric_(has_numeric_targets(context.data)) {
  const DataShape& data = context.data;
  want_tokens(kind.model, data);
  const int64_t length = data.input.empty() ? 0 : data.input[0];
  const int64_t vocab = sufficient_size({kind.model, "vocab", options.vocab, data.vocab});
  longest_ = sufficient_size({kind.model, "context", options.context, length});
  if (kind.skips_pads && options.pad >= vocab) {
    throw Error(ExitCode::kRecipe,
                "'pad' of the model '" + std::string(kind.model) + "' is " +
                    std::to_string(options.pad) + ", but token ids are below " +
                    std::to_string(vocab),
                "give the tokenizer's token for padding");
  }
  encoder_ = net_->register_module(kind.base,
                                   std::make_shared<BertEncoder>(kind, options, vocab, longest_));
  add_head(options, vocab, data);
  initialise(*net_);
  if (kind.skips_pads) return;
  const torch::NoGradGuard no_grad;
  encoder_->word_embedding().select(0, filling_token(data)).zero_();
}

void BertModel::add_head(const BertOptions& options, int64_t vocab, const DataShape& data) {
  const int64_t width = options.width;
  const BertHead head = options.head.value_or(head_for(data));
  if (head == BertHead::kClasses) {
    const int64_t classes =
        equal_size({kind_.model, "classes", options.classes, output_count(data)});
    pooled_ = bert_linear(*net_, kind_.pooled, width, width);
    classifier_ = bert_linear(*net_, kind_.classifier, width, classes);
    return;
  }
  if (head == BertHead::kLabels) {
    const int64_t labels = equal_size({kind_.model, "classes", options.classes, data.classes});
    labels_ = bert_linear(*net_, kBertLabels, width, labels);
    if (!kind_.labels_drop_alike) head_dropout_ = options.dropout;
    return;
  }
  token_bias_ = bert_bias(*net_, kind_.token_bias, vocab);
  transform_ = bert_linear(*net_, kind_.transform, width, width);
  transform_norm_ = bert_norm(*net_, kind_.transform_norm, options);
}

const char* BertModel::default_task() const {
  if (labels_) return "token_classification";
  if (!classifier_) return "masked_lm";
  return numeric_ ? "regression" : "classification";
}

TextOutput BertModel::text_output() const {
  if (labels_) return TextOutput::kLabels;
  return classifier_ ? TextOutput::kWhole : TextOutput::kHiddenToken;
}

at::Tensor BertModel::dropped(const at::Tensor& x) const {
  return at::dropout(x, head_dropout_, net_->is_training());
}

at::Tensor BertModel::classes_of(const at::Tensor& hidden) {
  const at::Tensor first = hidden.select(1, 0);
  const at::Tensor pooled = pooled_->forward(kind_.drops_before_pooling ? dropped(first) : first);
  return classifier_->forward(dropped(activate(kind_.pooled_activation, pooled)));
}

at::Tensor BertModel::forward_batch(const Batch& batch) {
  if (classifier_) return classes_of(encoder_->forward(batch, Places::kFirst));
  const at::Tensor hidden = encoder_->forward(batch, Places::kAll);
  if (labels_) return labels_->forward(dropped(hidden));
  const at::Tensor y = activate(token_activation_, transform_->forward(hidden));
  return at::linear(transform_norm_->forward(y), encoder_->word_embedding(), token_bias_);
}

}  // namespace accel
