// Logits and loss of tasks that classify each token.
#pragma once

#include <string>

#include "core/api/model.h"

namespace accel {

/// The number of unmasked targets.
double counted_targets(const Batch& batch);

/// The model's logits, F32 [batch, length, choices]. Throws Error (kRecipe) that names `task`, with
/// `hint`, for another shape.
at::Tensor token_scores(const char* task, Model& model, const Batch& batch,
                        const std::string& hint);

/// The mean cross-entropy over unmasked targets; 0 without any.
at::Tensor mean_token_loss(const at::Tensor& scores, const Batch& batch);

}  // namespace accel
