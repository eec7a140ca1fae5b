#include "train/metrics/sample_metric.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/stack.h>

#include <cmath>
#include <limits>

namespace accel {

void SampleMetric::update(const EvalStep& step) {
  rows_.push_back(rows_of(step).to(at::kDouble).cpu());
}

at::Tensor SampleMetric::take_rows() {
  const std::vector<at::Tensor> rows = std::exchange(rows_, {});
  return rows.empty() ? at::Tensor() : at::cat(rows);
}

at::Tensor SampleMetric::rows() const {
  const at::Tensor all = rows_.empty() ? at::Tensor() : at::cat(rows_);
  return all.defined() && all.size(0) > 0 ? all : at::Tensor();
}

std::vector<std::pair<std::string, double>> SampleMetric::values() const {
  const at::Tensor all = rows();
  return {{name(), all.defined() ? value_of(all) : std::numeric_limits<double>::quiet_NaN()}};
}

at::Tensor average_ranks(const at::Tensor& numbers) {
  const auto [sorted, order] = numbers.sort(/*stable=*/true, 0, /*descending=*/false);
  const int64_t count = numbers.size(0);
  const double* value = sorted.const_data_ptr<double>();
  const int64_t* place = order.const_data_ptr<int64_t>();
  at::Tensor ranks = at::empty_like(numbers);
  double* rank = ranks.mutable_data_ptr<double>();
  for (int64_t first = 0, end = 0; first < count; first = end) {
    do ++end;  // NaN is equal to nothing
    while (end < count && value[end] == value[first]);
    const double mean =
        std::isnan(value[first]) ? value[first] : static_cast<double>(first + 1 + end) / 2;
    for (int64_t i = first; i < end; ++i) rank[place[i]] = mean;
  }
  return ranks;
}

at::Tensor number_rows(const EvalStep& step) {
  const at::Tensor targets = step.batch.targets.to(at::kDouble);
  const at::Tensor output = step.output.to(at::kDouble).reshape_as(targets);
  const int64_t samples = targets.size(0);
  return at::stack({output.reshape({samples, -1}), targets.reshape({samples, -1})}, 1);
}

}  // namespace accel
