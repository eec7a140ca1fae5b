// Embeddings, and heads tied to them, with an optional low-rank adapter.
#pragma once

#include <torch/nn/modules/embedding.h>

#include "models/layers/adapted_linear.h"

namespace accel {

/// torch::nn::Embedding plus scale * B A[:, token] of its adapter, without dropout, as PEFT's. A
/// [rank, tokens] starts at zero, B [width, rank] normal.
class AdaptedEmbeddingImpl : public torch::nn::EmbeddingImpl, public Adaptable {
 public:
  using torch::nn::EmbeddingImpl::EmbeddingImpl;

  at::Tensor forward(const at::Tensor& tokens);
  /// `rows` [..., width], the table's for `tokens` [...], plus the adapter's output. The adapter's
  /// column of the table's padding token gets no gradient.
  at::Tensor adapted(const at::Tensor& rows, const at::Tensor& tokens) const;
  void adapt(const LoraOptions& lora) override;
  bool is_adapted() const override { return lora_a_.defined(); }

 private:
  at::Tensor lora_a_, lora_b_;
  double scale_ = 0;
};
TORCH_MODULE(AdaptedEmbedding);

/// The head of a language model whose weight is the embedding's: a module without parameters of
/// its own until it has an adapter, which is independent of the embedding's, as in PEFT, or a
/// quantized copy of the table.
class TiedHeadImpl : public torch::nn::Module, public Adaptable {
 public:
  TiedHeadImpl(int64_t inputs, int64_t outputs) : inputs_(inputs), outputs_(outputs) {}

  void adapt(const LoraOptions& lora) override;
  bool is_adapted() const override { return !lora_a_.is_empty(); }
  HeadAdapter head_adapter() const;
  /// Makes the head a copy of the table, which the embedding keeps as it is.
  void hold(FrozenWeight copy);
  /// Null: the head is the table.
  const FrozenWeight* frozen() const { return copy_ ? &*copy_ : nullptr; }

 private:
  std::optional<FrozenWeight> copy_;  ///< shares the tensors of the parameters
  int64_t inputs_, outputs_;
  torch::nn::Linear lora_a_{nullptr}, lora_b_{nullptr};
  double dropout_ = 0;
  double scale_ = 0;
};
TORCH_MODULE(TiedHead);

}  // namespace accel
