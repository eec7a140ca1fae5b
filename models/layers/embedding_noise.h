// NEFTune (Jain et al., 2023): uniform noise on the embeddings of tokens.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace accel {

/// While it lives, with_embedding_noise() adds noise in this thread: uniform in +-alpha /
/// sqrt(length * width), as transformers. The noise of a row is a function of the step and the
/// sample, so that a resumed run and any number of ranks draw the same.
class EmbeddingNoise {
 public:
  /// `samples` are the positions of the rows' samples in the dataset.
  EmbeddingNoise(double alpha, int64_t step, const std::vector<int64_t>& samples);
  ~EmbeddingNoise();
  EmbeddingNoise(const EmbeddingNoise&) = delete;
  EmbeddingNoise& operator=(const EmbeddingNoise&) = delete;

  /// Whether a model has embedded tokens since the start: others have no noise.
  bool is_applied() const { return applied_; }
  /// [rows, length, width] F32 on the CPU.
  at::Tensor draw(at::IntArrayRef sizes) const;

 private:
  friend at::Tensor with_embedding_noise(const at::Tensor& embeddings);

  double alpha_;
  int64_t step_;
  const std::vector<int64_t>& samples_;
  bool applied_ = false;
  EmbeddingNoise* before_;
};

/// Embeddings [rows, length, width] with the noise of the scope in force, if there is one.
at::Tensor with_embedding_noise(const at::Tensor& embeddings);

}  // namespace accel
