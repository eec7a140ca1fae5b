// Logits and loss of tasks that classify each token.
#pragma once

#include <string>

#include "models/layers/sampled_labels.h"
#include "train/tasks/divided_sequences.h"

namespace accel {

/// The number of unmasked targets, without waiting for a device if the host has them.
double counted_targets(const Batch& batch);

/// Of the model's logits, [batch, positions, choices]: the mean cross-entropy over unmasked
/// targets, 0 without any, and the likeliest choices. Throws Error (kRecipe) that names `task`,
/// with `hint`, for logits of another shape. `model` must outlive the result.
PositionLoss token_loss(const char* task, Model& model, const std::string& hint);

/// The mean of token_loss() for labels that are sampled from these logits.
at::Tensor sampled_token_loss(const char* task, Model& model, const std::string& hint,
                              const Batch& batch, const LabelDraws& draws);

}  // namespace accel
