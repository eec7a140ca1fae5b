#include "runner/loop/interval.h"

#include <algorithm>

namespace accel {

void Interval::add(const StepResult& result, int64_t step_samples, int64_t step_tokens) {
  loss += result.loss;
  grad_norm += result.grad_norm;
  steps += 1;
  samples += step_samples;
  tokens += step_tokens;
  for (const auto& [name, value] : result.logged) {
    auto& [sum, times] = logged[name];
    sum += value;
    ++times;
  }
}

std::vector<Measurement> Interval::measured(const EndOfInterval& end) const {
  const auto count = static_cast<double>(steps);
  const double taken = std::max(1e-9, end.now - seconds);
  std::vector<Measurement> values = {
      {"train/loss", loss / count},
      {"train/grad_norm", grad_norm / count},
      {"train/lr", end.lr},
      {"train/epoch", end.epoch},
      {"train/samples_per_second", static_cast<double>(samples) / taken}};
  if (tokens > 0) {
    values.emplace_back("train/tokens_per_second", static_cast<double>(tokens) / taken);
  }
  for (const auto& [name, value] : logged) {
    values.emplace_back("train/" + name, value.first / static_cast<double>(value.second));
  }
  return values;
}

}  // namespace accel
