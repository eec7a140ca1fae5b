// Counts of predicted and actual classes.
#pragma once

#include <cstdint>
#include <vector>

#include "train/metrics/predictions.h"

namespace accel {

class LabelCounts {
 public:
  /// Of one class.
  struct Counts {
    double right = 0;   ///< predicted correctly
    double chosen = 0;  ///< predicted
    double actual = 0;
  };

  explicit LabelCounts(int64_t classes)
      : classes_(classes), sums_(static_cast<size_t>(3 * classes), 0) {}

  /// Targets of kIgnoredTarget are left out.
  void add(const EvalStep& step);
  int64_t classes() const { return classes_; }
  Counts of(int64_t label) const;
  std::vector<double>& sums() { return sums_; }

 private:
  void add_row(int64_t row, const at::Tensor& labels);

  int64_t classes_;
  std::vector<double> sums_;  ///< the members of Counts, each by class
};

}  // namespace accel
