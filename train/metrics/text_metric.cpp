#include "train/metrics/text_metric.h"

#include <vector>

#include "core/api/targets.h"

namespace accel {
namespace {

std::vector<int64_t> counted_tokens(const at::Tensor& row) {
  std::vector<int64_t> out;
  const auto* tokens = row.const_data_ptr<int64_t>();
  for (int64_t i = 0; i < row.numel(); ++i) {
    if (tokens[i] != kIgnoredTarget) out.push_back(tokens[i]);
  }
  return out;
}

}  // namespace

void TextMetric::update(const EvalStep& step) {
  const at::Tensor output = step.output.to(at::kCPU).contiguous();
  const at::Tensor targets = step.batch.targets.to(at::kCPU).contiguous();
  for (int64_t row = 0; row < targets.size(0); ++row) {
    add(decode_(counted_tokens(output[row])), decode_(counted_tokens(targets[row])));
  }
}

}  // namespace accel
