#include "train/loop/stragglers.h"

#include <algorithm>
#include <cmath>

#include "core/base/text.h"

namespace accel {
namespace {

std::string milliseconds_per_step(double seconds) {
  return std::to_string(std::llround(seconds * 1e3 / Stragglers::kSteps)) + " ms";
}

}  // namespace

std::optional<std::string> Stragglers::add(std::span<const double> seconds) {
  if (seconds.size() < 2) return std::nullopt;
  sums_.resize(seconds.size());
  for (size_t rank = 0; rank < seconds.size(); ++rank) sums_[rank] += seconds[rank];
  if (++steps_ < kSteps) return std::nullopt;
  steps_ = 0;
  const std::vector<double> sums = std::move(sums_);
  sums_.clear();
  const auto slowest = std::max_element(sums.begin(), sums.end());
  std::vector<double> sorted = sums;
  std::sort(sorted.begin(), sorted.end());
  const double median = sorted[(sorted.size() - 1) / 2];  // of two ranks, the faster
  if (*slowest <= kSlower * median) return std::nullopt;
  const auto rank = static_cast<size_t>(slowest - sums.begin());
  news_ = named_ != rank;
  named_ = rank;
  return text("rank {} is slow: {} of computation per step, median {}; all ranks wait for it", rank,
              milliseconds_per_step(*slowest), milliseconds_per_step(median));
}

}  // namespace accel
