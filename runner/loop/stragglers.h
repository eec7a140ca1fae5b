// Finds the rank that the others wait for.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace accel {

/// Of several ranks, watched over some steps at a time.
class Stragglers {
 public:
  static constexpr int64_t kSteps = 100;
  /// How much longer than the median rank one computes before it is told.
  static constexpr double kSlower = 1.5;

  /// `seconds` is what each rank computed for in a step, waits for others not included. After each
  /// kSteps steps a line that names the slowest rank, if it is that slow.
  std::optional<std::string> add(std::span<const double> seconds);
  /// Whether the last line named another rank than the one before it.
  bool is_news() const { return news_; }

 private:
  std::optional<size_t> named_;
  bool news_ = false;
  std::vector<double> sums_;
  int64_t steps_ = 0;
};

}  // namespace accel
