// BERT-style models: options, the differences between BERT, RoBERTa and DistilBERT, encoder, and
// heads for sequence and token classification, question answering and masked language modeling.
#pragma once

#include <torch/nn/modules/container/modulelist.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/normalization.h>

#include <memory>
#include <optional>
#include <string>

#include "core/api/batch.h"
#include "core/api/block.h"
#include "core/api/model.h"
#include "core/api/token_head.h"
#include "models/bert_options.h"
#include "models/encoder_head.h"
#include "models/hf/hf_family.h"
#include "models/layers/activations.h"
#include "models/layers/adapted_embedding.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/context_parallel.h"
#include "models/layers/input_spec.h"
#include "models/layers/packed_texts.h"
#include "models/layers/self_attention.h"
#include "models/layers/tensor_parallel.h"
#include "models/layers/token_positions.h"

namespace accel {

/// Rows of the position table before the first token's.
inline int64_t first_position(const BertKind& kind, const BertOptions& options) {
  return kind.skips_pads ? options.pad + 1 : 0;
}

/// A module whose submodules are registered by its creator.
using BertPart = torch::nn::Module;

/// The submodule at a dotted path; creates missing ones. The others register a layer there.
std::shared_ptr<BertPart> bert_part(BertPart& in, const std::string& path);
AdaptedLinear bert_linear(BertPart& in, const std::string& path, int64_t inputs, int64_t outputs);
torch::nn::LayerNorm bert_norm(BertPart& in, const std::string& path, const BertOptions& options);
/// Of embeddings.
torch::nn::LayerNorm bert_embedding_norm(BertPart& in, const std::string& path,
                                         const BertOptions& options);
at::Tensor bert_bias(BertPart& in, const std::string& path, int64_t size);

class BertLayer final : public torch::nn::Module, public Block {
 public:
  BertLayer(const BertKind& kind, const BertOptions& options, const TensorRanksPtr& ranks);

  /// Returns the `places` of the output.
  at::Tensor forward(const at::Tensor& x, const VisibleKeys& keys, TokenPositions places,
                     const RelativePass& relative);

 private:
  at::Tensor attended(const at::Tensor& x, const VisibleKeys& keys, TokenPositions places,
                      const RelativePass& relative);
  void add_relative(const BertOptions& options);
  at::Tensor dropped(const at::Tensor& x) const { return at::dropout(x, dropout_, is_training()); }

  TensorRanksPtr ranks_;
  int64_t heads_;  ///< of this rank
  HfActivation activation_;
  double dropout_, attention_dropout_;
  bool drops_attended_;
  AdaptedLinear query_{nullptr}, key_{nullptr}, value_{nullptr}, attended_{nullptr},
      inner_{nullptr}, outer_{nullptr};
  AdaptedLinear relative_key_{nullptr}, relative_query_{nullptr};  ///< see RelativeTerms
  torch::nn::LayerNorm attended_norm_{nullptr}, outer_norm_{nullptr};
};

class BertEncoder final : public torch::nn::Module {
 public:
  BertEncoder(const BertKind& kind, const BertOptions& options, int64_t vocab, int64_t context,
              const TensorRanksPtr& ranks);

  /// [batch, length, width]; the positions in `read` at least, or those of this rank of `context`:
  /// see dividing().
  at::Tensor forward(const Batch& batch, TokenPositions read, const ContextRanksPtr& context);
  /// Segments of batches number texts, which attention separates; they are no token types.
  void separate_texts() { packed_ = true; }
  const at::Tensor& word_embedding() const { return words_->weight; }
  DividedVocabulary vocabulary() const { return {ranks_.get(), words_->options.num_embeddings()}; }
  std::vector<Block*> chain() const { return block_chain(layers_); }

 private:
  /// `texts`: of packed texts, else undefined.
  at::Tensor embedded(const Batch& batch, const BlockDiagonalMask& texts,
                      const ContextRanks* context);
  at::Tensor positions_of(const at::Tensor& tokens, const BlockDiagonalMask& texts) const;
  RelativePass relative_pass_of(int64_t length);

  TensorRanksPtr ranks_;
  std::optional<int64_t> pad_;  ///< the token whose embedding is not trained
  bool skips_pads_;
  bool packed_ = false;  ///< see separate_texts()
  AdaptedEmbedding words_{nullptr}, positions_{nullptr}, segments_{nullptr};
  AdaptedLinear projection_{nullptr};
  torch::nn::Embedding relative_{nullptr};  ///< table of relative positions
  torch::nn::LayerNorm relative_norm_{nullptr};
  RelativeOptions relative_options_;
  int64_t relative_context_;
  torch::nn::LayerNorm norm_{nullptr};
  std::vector<std::shared_ptr<BertLayer>> layers_;
  double dropout_;
};

class BertModel : public BatchModel,
                  public TensorParallel,
                  public ContextParallel,
                  public TokenHead,
                  public BlockChain,
                  public PacksTexts,
                  public InputSpec {
 public:
  at::Tensor forward_batch(const Batch& batch) override;
  std::vector<Block*> chain() override { return encoder_->chain(); }
  at::Tensor tied_weight() override;
  TensorPlan tensor_plan(int64_t ranks) const override;
  DividedVocabulary vocabulary() const override { return encoder_->vocabulary(); }
  void divide_sequences(ContextRanksPtr ranks) override;
  const ContextRanks* context_ranks() const override { return context_.get(); }
  bool has_token_head() const override { return token_bias_.defined(); }
  at::Tensor token_features(const Batch& batch) override;
  at::Tensor token_weight() override { return encoder_->word_embedding(); }
  at::Tensor token_bias() override { return token_bias_; }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override;
  void validate_input(const DataShape& data) const override {
    check_length(kind_.model, longest_, data);
    check_texts(kind_.model, packed_, data);
  }
  TextOutput text_output() const override;

 protected:
  /// `kind` must outlive the model. Throws Error (kRecipe) for unsupported data.
  BertModel(const BertKind& kind, const BertOptions& options, const ModelContext& context);

 private:
  void add_head(const BertOptions& options, int64_t vocab, const DataShape& data);
  /// Of the first position, [batch, width].
  at::Tensor classes_of(const at::Tensor& first);
  at::Tensor features_of(const at::Tensor& hidden);
  at::Tensor dropped(const at::Tensor& x) const;
  /// Of dropout at the positions of this rank; null where no rank divides.
  std::unique_ptr<RandomScope> stream_of(const ContextRanksPtr& context, const Batch& batch) const;

  const BertKind& kind_;
  EncoderHead head_for_;
  bool packed_;  ///< built for packed texts
  int64_t num_heads_;
  std::shared_ptr<BertPart> net_ = std::make_shared<BertPart>();
  std::shared_ptr<BertEncoder> encoder_;
  TensorRanksPtr ranks_;
  ContextRanksPtr context_;
  double attention_dropout_;
  AdaptedLinear pooled_{nullptr}, classifier_{nullptr};  ///< classification head
  AdaptedLinear labels_{nullptr};                        ///< token classification head
  AdaptedLinear span_{nullptr};                          ///< question answering head
  AdaptedLinear transform_{nullptr};                     ///< masked language modeling head
  torch::nn::LayerNorm transform_norm_{nullptr};
  at::Tensor token_bias_;
  HfActivation token_activation_;
  double head_dropout_;
  const char* classifier_task_;  ///< of the head for classes
  int64_t longest_;
};

}  // namespace accel
