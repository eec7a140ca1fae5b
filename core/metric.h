// A number that tells how good a model is on an evaluation set.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/batch.h"
#include "core/data_shape.h"

namespace accel {

struct MetricContext {
  DataShape data;
};

/// One evaluated batch of real samples.
struct EvalStep {
  const at::Tensor& output;
  const Batch& batch;
  double loss;    ///< mean over `weight`
  double weight;  ///< Task::weight of the batch
};

/// Everything a metric knows is a vector of sums, so that ranks can be added up.
class Metric {
 public:
  virtual ~Metric() = default;

  virtual void update(const EvalStep& step) = 0;
  /// The running sums; all zero at the start. Writing zeros starts over.
  virtual std::vector<double>& sums() = 0;
  /// One or more (name, value): {"accuracy", 0.98}, {"top_5", 0.999}.
  virtual std::vector<std::pair<std::string, double>> values() const = 0;
  virtual bool higher_is_better() const = 0;
};

}  // namespace accel
