// Encoder-decoder models, which map a source sequence to a target sequence.
#pragma once

#include <cstdint>
#include <memory>

#include "core/api/model.h"

namespace accel {

/// A model that reads Batch::inputs of Batch::lengths as sources and predicts Batch::targets, each
/// token from its source and the target's tokens before it. forward_batch() returns logits,
/// [batch, target length, vocab].
class EncoderDecoder : public BatchModel {
 public:
  /// [batch, target length, width]; logits are hidden @ head_weight()^T, without a bias.
  virtual at::Tensor hidden(const Batch& batch) = 0;
  /// [vocab, width].
  virtual at::Tensor head_weight() = 0;
  /// The token before the first one of each target.
  virtual int64_t start_token() const = 0;
  /// The decoder of one source, int64 [length] of one token or more, whose sequences begin with
  /// start_token(): the encoder runs here. This model outlives it.
  virtual std::unique_ptr<LanguageModel> decoder_of(const at::Tensor& source) = 0;
};

}  // namespace accel
