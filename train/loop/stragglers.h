// Detection of stragglers: ranks that the others wait for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace accel {

/// Compares the ranks' computation times over kSteps steps.
class Stragglers {
 public:
  static constexpr int64_t kSteps = 100;
  /// The ratio to the median rank from which a rank is reported.
  static constexpr double kSlower = 1.5;

  /// `seconds`: each rank's computation in a step, without waits for others. Every kSteps steps
  /// returns a line on the slowest rank, if it exceeds kSlower.
  std::optional<std::string> add(std::span<const double> seconds);
  /// Whether the last line names another rank than the line before.
  bool is_news() const { return news_; }

 private:
  std::optional<size_t> named_;
  bool news_ = false;
  std::vector<double> sums_;
  int64_t steps_ = 0;
};

}  // namespace accel
