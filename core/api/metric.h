// Evaluation metrics.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/api/batch.h"
#include "core/api/data_shape.h"

namespace accel {

struct MetricContext {
  DataShape data;
};

/// One evaluated batch, without padding samples.
struct EvalStep {
  const at::Tensor& output;
  const Batch& batch;
  double loss;    ///< mean over `weight`
  double weight;  ///< Task::weight of the batch
};

/// The state of a metric is a vector of sums, so that it can be all-reduced.
class Metric {
 public:
  virtual ~Metric() = default;

  virtual void update(const EvalStep& step) = 0;
  /// The running sums, initially zero. Writing zeros resets the metric.
  virtual std::vector<double>& sums() = 0;
  /// One or more (name, value): {"accuracy", 0.98}, {"top_5", 0.999}.
  virtual std::vector<std::pair<std::string, double>> values() const = 0;
  virtual bool higher_is_better() const = 0;
};

}  // namespace accel
