// Predicted classes of a model's output, for metrics that count correct predictions.
#pragma once

#include "core/api/metric.h"
#include "core/api/targets.h"

namespace accel {

/// The predicted class or token of each target, int64 in the targets' shape: the output itself when
/// it holds predictions, else its argmax along dimension 1.
at::Tensor chosen(const EvalStep& step);

/// The sum of all elements.
double total(const at::Tensor& tensor);

/// The number of classes. Throws Error (kRecipe) that names `metric` when the data has none.
int64_t class_count(const char* metric, const DataShape& data);

}  // namespace accel
