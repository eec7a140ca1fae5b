// Causal transformers whose blocks form one chain: what GPT-2, GPT-NeoX and OPT have in common. A
// model declares its options, its blocks, its embeddings and its last layers.
#pragma once

#include <torch/nn/module.h>
#include <torch/nn/modules/normalization.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/api/block.h"
#include "core/api/model.h"
#include "core/api/packed_sequences.h"
#include "models/decoder_head.h"
#include "models/layers/adapted_embedding.h"
#include "models/layers/adapted_linear.h"
#include "models/layers/context_parallel.h"
#include "models/layers/decoding.h"
#include "models/layers/input_spec.h"
#include "models/layers/language_head.h"
#include "models/layers/rope.h"
#include "models/layers/tensor_parallel.h"

namespace accel {

/// What all blocks of a forward pass read.
struct DecoderPass {
  RopeTurns turns;  ///< [batch or 1, 1, length, rotary width]; undefined: no rotary positions
  VisibleKeys visible;
};

/// Query, key and value of a block: [batch, heads, tokens, width].
struct DecoderHeads {
  at::Tensor query, key, value;
};

/// A block that maps [batch, tokens, hidden_size] to the same. `seen`: the cache of its layer, or
/// null.
class DecoderBlock : public torch::nn::Module, public Block {
 public:
  virtual at::Tensor forward(const at::Tensor& x, const DecoderPass& pass, LayerCache* seen) = 0;
};

/// Causal attention after the rotary positions of the pass, [batch, tokens, heads x width].
/// `dropout` of attention weights: 0 in evaluation.
at::Tensor attend(const DecoderHeads& heads, const DecoderPass& pass, LayerCache* seen,
                  double dropout, const TensorRanksPtr& ranks);

/// Embeddings, blocks and last layers.
class DecoderBody : public torch::nn::Module {
 public:
  /// [batch, length] to [batch, length, head's inputs]. `seen`: cache of the preceding tokens,
  /// extended by `tokens`; null: no cache.
  at::Tensor forward(const at::Tensor& tokens, KeyValueCache* seen);
  /// `segments`: see PackedSequences.
  at::Tensor forward_packed(const at::Tensor& tokens, const at::Tensor& segments);

  void divide_sequences(ContextRanksPtr ranks) { context_ = std::move(ranks); }
  const ContextRanks* context_ranks() const { return context_.get(); }
  DividedVocabulary vocabulary() const { return {ranks_.get(), vocab_}; }
  std::vector<Block*> chain() const { return block_chain(blocks_); }
  virtual const at::Tensor& token_embedding() const = 0;

 protected:
  DecoderBody(int64_t vocab, TensorRanksPtr ranks) : ranks_(std::move(ranks)), vocab_(vocab) {}

  /// Registers the blocks as the list `name`.
  void add_blocks(const char* name, std::vector<std::shared_ptr<DecoderBlock>> blocks);
  const TensorRanksPtr& ranks() const { return ranks_; }
  /// The rotary positions of int64 positions [batch, length].
  virtual RopeTurns turns_of([[maybe_unused]] const at::Tensor& positions) const { return {}; }
  /// Tokens and positions of whole sequences, [batch, length] and [length] or [batch, length], to
  /// the input of the first block, of which this rank has its part.
  virtual at::Tensor embedded(const at::Tensor& tokens, const at::Tensor& positions) = 0;
  /// The output of the last block to the input of the head.
  virtual at::Tensor finished(const at::Tensor& x) = 0;

 private:
  at::Tensor run_divided(const at::Tensor& tokens, const at::Tensor& positions,
                         const VisibleKeys& visible);
  at::Tensor run(const at::Tensor& tokens, const at::Tensor& positions, KeyValueCache* seen,
                 const VisibleKeys& visible);

  TensorRanksPtr ranks_;
  ContextRanksPtr context_;
  int64_t vocab_;
  std::vector<std::shared_ptr<DecoderBlock>> blocks_;
};

/// What a decoder's options say about its head and its sizes.
struct DecoderSetup {
  DecoderHead head;
  const char* base;  ///< dotted name of the body in the module
  Auto<int64_t> vocab_size, max_seq_len;
  int64_t num_heads;
  int64_t head_inputs;  ///< features of the body's output
  bool tie_embeddings;
  double attention_dropout;
};

class DecoderModel : public LanguageModel,
                     public CachedDecoder,
                     public HasLanguageHead,
                     public PackedSequences,
                     public TensorParallel,
                     public ContextParallel,
                     public BlockChain,
                     public InputSpec {
 public:
  /// Logits of the next token, or outputs of DecoderHead::forward().
  at::Tensor forward(const at::Tensor& tokens) override;
  at::Tensor forward_batch(const Batch& batch) override;
  at::Tensor hidden(const at::Tensor& tokens) override;
  at::Tensor hidden_next(const at::Tensor& tokens, KeyValueCache& cache) override;
  bool supports_ragged_rows() const override { return true; }
  at::Tensor forward_packed(const at::Tensor& tokens, const at::Tensor& segments) override;
  int64_t longest() const override { return longest_; }
  TensorPlan tensor_plan(int64_t ranks) const override;
  DividedVocabulary vocabulary() const override { return body_->vocabulary(); }
  void divide_sequences(ContextRanksPtr ranks) override;
  const ContextRanks* context_ranks() const override { return body_->context_ranks(); }
  at::Tensor head_weight() override;
  std::optional<LanguageHead> language_head() const override;
  std::vector<Block*> chain() override;
  at::Tensor tied_weight() override {
    const bool is_tied = setup_.head.is_language_model() && !head_;
    return is_tied ? body_->token_embedding() : at::Tensor();
  }
  torch::nn::Module& module() override { return *net_; }
  const char* default_task() const override { return default_task_; }
  void validate_input(const DataShape& data) const override;
  TextOutput text_output() const override;

 protected:
  /// A body, with initial weights, for a vocabulary and a length of sequences.
  using MakeBody = std::function<std::shared_ptr<DecoderBody>(int64_t vocab, int64_t context)>;

  /// Throws Error (kRecipe) for unsupported data.
  DecoderModel(const DecoderSetup& setup, const ModelContext& context, const MakeBody& make_body);

  /// The styles of the body's layers, by names relative to it.
  virtual TensorPlan body_plan() const = 0;

 private:
  [[noreturn]] void refuse_head(const char* options) const;

  std::shared_ptr<torch::nn::Module> net_ = std::make_shared<torch::nn::Module>();
  DecoderSetup setup_;
  std::shared_ptr<DecoderBody> body_;
  const char* default_task_;
  AdaptedLinear head_{nullptr};  ///< lm_head, or decoder_head_layer()
  TiedHead tied_head_{nullptr};  ///< instead of lm_head
  int64_t longest_ = 0;
};

/// Initial weights as those of GPT-2: normal with a deviation of 0.02, biases and the embedding of
/// the padding token zero. A body calls it at the end of its constructor; DecoderModel has done so
/// for the head.
void initialise_decoder(torch::nn::Module& body);

/// A linear layer that ends an attention or an MLP: it is divided by inputs under tensor
/// parallelism.
AdaptedLinear decoder_output(torch::nn::Module& in, const char* name,
                             const torch::nn::LinearOptions& options, const TensorRanksPtr& ranks);

}  // namespace accel
