// Optional interface of datasets with values that are fitted to the training samples, such as the
// mean that replaces missing numbers.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace accel {

/// A new dataset is fitted to all its samples. fit() and use_fitted() must be called before samples
/// and the shape are read; they change neither the number of samples nor their order.
class FittedValues {
 public:
  virtual ~FittedValues() = default;

  /// Fits the values to the samples `rows` only, which are ascending indices.
  virtual void fit(std::span<const int64_t> rows) = 0;
  /// The values as text, kept in checkpoints; empty if the dataset has none.
  virtual std::string fitted() const = 0;
  /// Replaces the values by those of another dataset's fitted().
  virtual void use_fitted(const std::string& values) = 0;
  /// What was replaced, one line each, for the first screen.
  virtual std::vector<std::string> fitted_notes() const = 0;
};

}  // namespace accel
