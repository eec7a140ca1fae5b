// Histograms as TensorBoard stores them.
#pragma once

#include <optional>
#include <span>
#include <vector>

namespace accel {

struct TfHistogram {
  double min = 0;
  double max = 0;
  double count = 0;
  double sum = 0;
  double sum_squares = 0;
  std::vector<double> limits;  ///< right edge of each bucket
  std::vector<double> counts;  ///< as many
};

/// Counts `values` in PyTorch's default buckets: 0 and +-1e-12 * 1.1^k below 1e20, cut to those
/// that hold something and one empty one on the left. Values that are not finite or lie outside are
/// left out; null when none is left.
std::optional<TfHistogram> tf_histogram(std::span<const float> values);

}  // namespace accel
