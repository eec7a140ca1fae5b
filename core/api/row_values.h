// Optional interfaces of datasets: class labels, column values and overlap of samples, by which
// held-out samples are drawn without reading all of them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accel {

/// Implemented by datasets that know the class labels of samples without reading them.
class ClassLabels {
 public:
  virtual ~ClassLabels() = default;
  /// Class of the sample at `index`. Only called if shape() has classes and a target of one number.
  virtual int64_t class_of(int64_t index) const = 0;
};

/// Implemented by datasets of records with named columns.
class RowKeys {
 public:
  virtual ~RowKeys() = default;
  /// For each sample a hash of its value in `column`. Throws Error for a missing column.
  virtual std::vector<uint64_t> row_keys(const std::string& column) const = 0;
};

/// Implemented by datasets whose samples are windows of one sequence.
class SequenceWindows {
 public:
  virtual ~SequenceWindows() = default;
  /// Number of samples after a sample that share elements of the sequence with it.
  virtual int64_t overlap() const = 0;
};

}  // namespace accel
