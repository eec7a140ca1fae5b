// What tasks that choose one of several for each token have in common.
#pragma once

#include <string>

#include "core/model.h"

namespace accel {

/// Targets that count.
double counted_targets(const Batch& batch);

/// The model's output, F32 [batch, length, choices]. Throws Error (kRecipe) in the name of `task`,
/// with that hint, for one of another shape.
at::Tensor token_scores(const char* task, Model& model, const Batch& batch,
                        const std::string& hint);

/// The mean cross-entropy over counted_targets(); 0 where there are none.
at::Tensor mean_token_loss(const at::Tensor& scores, const Batch& batch);

}  // namespace accel
