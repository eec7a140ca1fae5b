// The text of a progress display.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace accel {

/// The state of a task. Fields without a value are left out.
struct TaskProgress {
  std::string what = {};  ///< "evaluating"
  int64_t done = 0;
  int64_t total = 0;                    ///< 0: unknown
  std::string unit = {};                ///< "batches"; "B" for bytes
  std::string detail = {};              ///< "loss 0.412"
  std::vector<std::string> rates = {};  ///< "12.3 steps/s", the most important first
  double elapsed = -1;                  ///< seconds; negative: not shown
  double left = -1;                     ///< seconds; negative: unknown
};

/// A line, and the position of its bar in bytes.
struct ProgressLine {
  std::string text;
  size_t bar = 0;
  size_t bar_bytes = 0;
};

/// At most `columns` columns: fields that do not fit are left out, the least important first.
ProgressLine progress_line(const TaskProgress& task, int columns, bool unicode);

/// All fields without a bar, for plain lines.
std::string plain_progress(const TaskProgress& task);

/// "12.3 steps/s", or "2.5 s/step" below one a second; empty where the rate is not positive. `unit`
/// is singular.
std::string rate_text(double per_second, const std::string& unit);

/// "1:02:03" or "4:05".
std::string clock_text(double seconds);

/// 1,234,567
std::string grouped_digits(int64_t value);

}  // namespace accel
