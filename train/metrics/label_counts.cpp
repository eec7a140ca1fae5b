#include "train/metrics/label_counts.h"

namespace accel {

void LabelCounts::add(const EvalStep& step) {
  const at::Tensor counted = step.batch.targets.ne(kIgnoredTarget);
  const at::Tensor actual = step.batch.targets.masked_select(counted);
  const at::Tensor choice = accel::chosen(step).masked_select(counted);
  add_row(0, choice.masked_select(choice.eq(actual)));
  add_row(1, choice);
  add_row(2, actual);
}

LabelCounts::Counts LabelCounts::of(int64_t label) const {
  const auto at = [&](int64_t row) { return sums_[static_cast<size_t>(row * classes_ + label)]; };
  return {at(0), at(1), at(2)};
}

void LabelCounts::add_row(int64_t row, const at::Tensor& labels) {
  const at::Tensor counts = labels.bincount({}, classes_).cpu();
  const int64_t* count = counts.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < classes_; ++i) {
    sums_[static_cast<size_t>(row * classes_ + i)] += static_cast<double>(count[i]);
  }
}

}  // namespace accel
