// One picture of a run for a terminal.
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
};

/// At most `size.rows` lines of at most `size.columns` columns. `now` is the time of the picture,
/// `quiet_seconds` how long nothing was written to the record.
std::vector<FrameLine> top_frame(const RunSummary& run, FrameSize size, std::time_t now,
                                 double quiet_seconds);

/// `columns` bars as high as the curve, the newest at the right; shorter when it has fewer values.
std::string sparkline(const Curve& curve, int columns);

}  // namespace accel
