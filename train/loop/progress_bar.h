// Progress bar of a run, on a terminal only.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace accel {

/// Draws on standard error when it is a terminal, and is redrawn below log lines. One instance at a
/// time.
class ProgressBar {
 public:
  /// `total_steps` 0: unknown.
  explicit ProgressBar(int64_t total_steps);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Redraws at most ten times a second. `seconds_per_step` <= 0: unknown.
  void update(int64_t step, double loss, double seconds_per_step);

 private:
  static void redraw(bool draw);

  int64_t total_;
  bool terminal_;
  std::string text_;
  std::chrono::steady_clock::time_point drawn_;
};

/// "1:02:03" or "4:05".
std::string clock_text(double seconds);

}  // namespace accel
