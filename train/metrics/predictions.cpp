#include "train/metrics/predictions.h"

#include "core/base/error.h"
#include "core/base/text.h"

namespace accel {

at::Tensor chosen(const EvalStep& step) {
  return step.output.is_floating_point() ? step.output.argmax(1) : step.output;
}

double total(const at::Tensor& tensor) {
  return tensor.sum(at::kDouble).item<double>();
}

int64_t class_count(const char* metric, const DataShape& data) {
  if (data.classes > 0) return data.classes;
  throw Error(ExitCode::kRecipe,
              text("the metric '{}' needs classes, but the data has none", metric));
}

}  // namespace accel
