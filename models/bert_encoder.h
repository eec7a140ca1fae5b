// The encoder of BERT and its kin, and parts under dotted names.
#pragma once

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include "core/batch.h"
#include "models/adapted_linear.h"
#include "models/bert_kind.h"
#include "models/block.h"
#include "models/places.h"

namespace accel {

/// A module whose parts are registered by those who make it.
using BertPart = torch::nn::Module;

/// The part of that dotted name, made with all before it where they are not there yet.
std::shared_ptr<BertPart> bert_part(BertPart& in, const std::string& path);
/// Registers a module under a dotted name.
AdaptedLinear bert_linear(BertPart& in, const std::string& path, int64_t inputs, int64_t outputs);
torch::nn::LayerNorm bert_norm(BertPart& in, const std::string& path, const BertOptions& options);
at::Tensor bert_bias(BertPart& in, const std::string& path, int64_t size);

class BertLayer final : public Block {
 public:
  BertLayer(const BertKind& kind, const BertOptions& options);

  /// `mask` is [batch, 1, 1, length]: which tokens may be seen. The output has `places` of x.
  at::Tensor forward(const at::Tensor& x, const std::optional<at::Tensor>& mask, Places places);

 private:
  at::Tensor dropped(const at::Tensor& x) const { return at::dropout(x, dropout_, is_training()); }

  int64_t heads_;
  HfActivation activation_;
  double dropout_, attention_dropout_;
  bool drops_attended_;
  AdaptedLinear query_{nullptr}, key_{nullptr}, value_{nullptr}, attended_{nullptr};
  AdaptedLinear inner_{nullptr}, outer_{nullptr};
  torch::nn::LayerNorm attended_norm_{nullptr}, outer_norm_{nullptr};
};

class BertEncoder final : public torch::nn::Module {
 public:
  /// For `vocab` tokens in texts of up to `context`.
  BertEncoder(const BertKind& kind, const BertOptions& options, int64_t vocab, int64_t context);

  /// [batch, length, width] of a batch of tokens; of the length at least the places in `read`.
  at::Tensor forward(const Batch& batch, Places read);
  const at::Tensor& word_embedding() const { return words_->weight; }

 private:
  at::Tensor positions_of(const at::Tensor& tokens) const;

  std::optional<int64_t> pad_;  ///< given: positions skip it
  torch::nn::Embedding words_{nullptr}, positions_{nullptr}, segments_{nullptr};
  torch::nn::LayerNorm norm_{nullptr};
  std::vector<std::shared_ptr<BertLayer>> layers_;
  double dropout_;
};

}  // namespace accel
