// Losses of labels that are sampled from the model's own outputs, for estimates of curvature.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "core/api/batch.h"
#include "core/api/model.h"

namespace accel {

/// Random numbers for the labels of one micro-batch: a function of the seed, the step and each
/// sample, so that a resumed run and any number of ranks sample the same.
class LabelDraws {
 public:
  /// `samples` are the positions of the rows' samples in the dataset.
  LabelDraws(uint64_t seed, int64_t step, const std::vector<int64_t>& samples)
      : seed_(seed), step_(step), samples_(samples) {}

  /// Uniform in [0, 1): F32 [samples * per_sample], on the device of `like`.
  at::Tensor uniform(int64_t per_sample, const at::Tensor& like) const;

 private:
  uint64_t seed_;
  int64_t step_;
  const std::vector<int64_t>& samples_;
};

/// A class for each row of logits [rows, classes], by its random number of `uniform` [rows]: the
/// first whose cumulative probability exceeds it. int64 [rows]; where `targets` [rows] is masked,
/// so is the label.
at::Tensor sample_labels(const at::Tensor& logits, const at::Tensor& targets,
                         const at::Tensor& uniform);

/// Implemented by tasks whose loss is the cross-entropy of classes.
class SamplesLabels {
 public:
  virtual ~SamplesLabels() = default;
  /// As Task::loss(), of sampled labels in place of the batch's targets.
  virtual at::Tensor sampled_loss(Model& model, const Batch& batch,
                                  const LabelDraws& draws) const = 0;
  /// The option with which the loss is no likelihood; "": none.
  virtual std::string prevents_sampling() const { return ""; }
};

}  // namespace accel
