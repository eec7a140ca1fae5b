// A frame of `accel-run top`.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "runner/report/run_summary.h"

namespace accel {

struct FrameLine {
  enum class Look { kPlain, kTitle, kBad, kFaint };
  std::string text;  ///< safe to print
  Look look = Look::kPlain;
};

struct FrameSize {
  int columns = 80;
  int rows = 24;
  bool unicode = true;  ///< blocks of Unicode, else of ASCII
};

/// At most `size.rows` lines of at most `size.columns` columns. `now` is the time of the frame,
/// `quiet_seconds` the time since the last write to the record.
std::vector<FrameLine> top_frame(const RunSummary& run, FrameSize size, std::time_t now,
                                 double quiet_seconds);

/// Up to `columns` bars of the curve, newest at the right.
std::string sparkline(const Curve& curve, int columns, bool unicode = true);

}  // namespace accel
