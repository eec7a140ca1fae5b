// Metrics that are no function of sums, such as rank statistics.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "core/api/metric.h"

namespace accel {

/// A metric over the rows of all samples of an evaluation, in the order of the global batches: the
/// evaluation gathers them, so that any number of ranks gives the same bits.
class SampleMetric : public Metric {
 public:
  void update(const EvalStep& step) final;
  /// Empty.
  std::vector<double>& sums() final { return sums_; }
  /// Of the rows so far; NaN without any.
  std::vector<std::pair<std::string, double>> values() const override;
  bool higher_is_better() const override { return true; }

  /// The rows of update() since the last call, [samples, ...] F64 on the CPU. The metric forgets
  /// them.
  at::Tensor take_rows();
  /// The rows of all ranks.
  void set_rows(at::Tensor rows) { rows_ = {std::move(rows)}; }

 protected:
  /// Those so far; undefined without any.
  at::Tensor rows() const;

 private:
  virtual at::Tensor rows_of(const EvalStep& step) const = 0;
  /// `rows` has at least one row.
  virtual double value_of(const at::Tensor& rows) const = 0;
  virtual const char* name() const = 0;

  std::vector<at::Tensor> rows_;
  std::vector<double> sums_;
};

/// The ranks of numbers, from 1; equal ones have their mean rank, NaN has NaN. 1-d, F64.
at::Tensor average_ranks(const at::Tensor& numbers);

/// Predicted and actual numbers of each sample, [samples, 2, numbers].
at::Tensor number_rows(const EvalStep& step);

}  // namespace accel
