// Tasks that take time, such as opening data, shown on the terminal while they last.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "core/base/progress_text.h"

namespace accel {

/// kAuto: a line that is redrawn, on a terminal only. kLines: plain lines on standard error, at
/// most one in ten seconds for each task.
enum class ProgressStyle { kAuto, kBar, kLines, kNone };

void choose_progress(ProgressStyle style);

/// Whether standard error or standard output is a terminal on which a line can be redrawn.
bool has_progress_terminal();

/// The innermost activity is shown, below the lines of the log, which any thread may write. One
/// thread creates, updates and destroys activities.
class Activity {
 public:
  /// "opening the training data"; `unit` of progress(): "rows", or "B" for bytes.
  explicit Activity(std::string what, std::string unit = {});
  ~Activity();
  Activity(const Activity&) = delete;
  Activity& operator=(const Activity&) = delete;

  /// Rate and remaining time follow from the amounts done since the first call. Redraws at most ten
  /// times a second, as show() does. `total` 0: unknown.
  void progress(int64_t done, int64_t total);
  void show(TaskProgress task);
  /// Whether the next show() would be drawn.
  bool is_due() const;

 private:
  using Clock = std::chrono::steady_clock;

  static void on_line(bool draw);
  static void redraw(bool draw);
  double seconds() const;
  void print_line();
  void print_time(double seconds) const;

  TaskProgress task_;
  Activity* outer_;
  bool is_shown_;  // known once: show() is called at each step
  Clock::time_point start_ = Clock::now(), printed_ = start_;
  int64_t first_done_ = -1;
  Clock::time_point first_time_;
};

}  // namespace accel
