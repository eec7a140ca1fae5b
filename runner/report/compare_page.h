// The report on several runs, side by side.
#pragma once

#include <string>
#include <vector>

#include "runner/report/run_summary.h"

namespace accel {

/// A whole HTML document: every curve of all runs in one drawing, their last numbers, and the
/// options in which their recipes differ. `runs` are at least two.
std::string compare_page(const std::vector<RunSummary>& runs);

}  // namespace accel
