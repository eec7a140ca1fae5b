// What a model's output says, for the metrics that count right answers.
#pragma once

#include "core/metric.h"
#include "core/targets.h"

namespace accel {

/// The class or token chosen for each target, int64 in the targets' shape: the output itself when
/// it holds choices, else the place of its largest value along dimension 1.
at::Tensor chosen(const EvalStep& step);

/// The sum of all elements of a tensor of any type.
double total(const at::Tensor& tensor);

/// The number of classes, for the metric named. Throws Error (kRecipe) when the data has none.
int64_t class_count(const char* metric, const DataShape& data);

}  // namespace accel
