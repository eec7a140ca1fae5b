// BERT and its kin as models: an encoder with a head for classes, for a label of each token or for
// hidden tokens.
#pragma once

#include <memory>

#include "core/model.h"
#include "models/bert_encoder.h"
#include "models/fitted_model.h"

namespace accel {

class BertModel : public BatchModel, public FittedModel {
 public:
  at::Tensor forward_batch(const Batch& batch) override;
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override;
  void check_samples(const DataShape& data) const override {
    check_length(kind_.model, longest_, data);
  }
  TextOutput text_output() const override;

 protected:
  /// `kind` must outlive the model. Throws Error (kRecipe) for data that it does not fit.
  BertModel(const BertKind& kind, const BertOptions& options, const ModelContext& context);

 private:
  void add_head(const BertOptions& options, int64_t vocab, const DataShape& data);
  at::Tensor classes_of(const at::Tensor& hidden);
  at::Tensor dropped(const at::Tensor& x) const;

  const BertKind& kind_;
  std::shared_ptr<BertPart> net_ = std::make_shared<BertPart>();
  std::shared_ptr<BertEncoder> encoder_;
  AdaptedLinear pooled_{nullptr}, classifier_{nullptr};  ///< of the head for classes
  AdaptedLinear labels_{nullptr};                        ///< the head for labels
  AdaptedLinear transform_{nullptr};                     ///< of the head for tokens
  torch::nn::LayerNorm transform_norm_{nullptr};
  at::Tensor token_bias_;
  HfActivation token_activation_;
  double head_dropout_;
  bool numeric_;
  int64_t longest_;
};

}  // namespace accel
