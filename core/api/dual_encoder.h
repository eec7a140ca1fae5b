// Models that embed images and texts in one space, and the samples of pairs they read.
#pragma once

#include "core/api/model.h"

namespace accel {

/// Whether a sample's `input` is an image and its `target` the tokens of a text, padded to one
/// length for all samples.
inline bool has_image_texts(const DataShape& data) {
  return !data.padding && data.vocab > 0 && data.input_type == DType::kF32 &&
         data.input.size() == 3 && data.target_type == DType::kI64 && data.target.size() == 1;
}

/// The embeddings of a batch's pairs, [batch, width], of length 1.
struct PairEmbeddings {
  at::Tensor image, text;
};

/// A model that reads Batch::inputs as images and Batch::targets as texts. forward_batch() returns
/// the embeddings of both, [batch, 2, width].
class DualEncoder : public BatchModel {
 public:
  virtual PairEmbeddings embed(const Batch& batch) = 0;
  /// The factor of similarities in the loss, 0-d with autograd.
  virtual at::Tensor scale() = 0;
};

}  // namespace accel
