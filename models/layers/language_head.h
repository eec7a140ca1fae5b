// Heads of decoders that give the logits of the next token.
#pragma once

#include <utility>

#include "core/api/model.h"
#include "models/layers/adapted_embedding.h"

namespace accel {

/// A layer, or the table of embeddings that the head is tied to. Shares both with its model.
class LanguageHead {
 public:
  explicit LanguageHead(AdaptedLinear layer) : layer_(std::move(layer)) {}
  LanguageHead(TiedHead tied, at::Tensor table)
      : tied_(std::move(tied)), table_(std::move(table)) {}

  bool is_tied() const { return layer_.is_empty(); }
  HeadAdapter adapter() const { return is_tied() ? tied_->head_adapter() : layer_->head_adapter(); }
  /// As LanguageModel::head_weight(): of a quantized head float32, a copy.
  at::Tensor weight() const;
  /// Null: the head is not quantized.
  const FrozenWeight* frozen() const { return is_tied() ? tied_->frozen() : layer_->frozen(); }
  /// The weight that is quantized, [vocab, width].
  const at::Tensor& whole_weight() const { return is_tied() ? table_ : layer_->weight; }
  /// Replaces the weight of the layer. A table stays as it is, and the head gets a copy.
  void hold(FrozenWeight frozen);

 private:
  AdaptedLinear layer_{nullptr};
  TiedHead tied_{nullptr};
  at::Tensor table_;
};

/// A LanguageModel with such a head.
class HasLanguageHead {
 public:
  virtual ~HasLanguageHead() = default;
  /// None for models with another head.
  virtual std::optional<LanguageHead> language_head() const = 0;
  /// Of that head; without one, no adapter.
  HeadAdapter head_adapter() const {
    const std::optional<LanguageHead> head = language_head();
    return head ? head->adapter() : HeadAdapter();
  }
};

}  // namespace accel
