// What a run was planned to take, beside what it took.
#pragma once

#include <string>
#include <vector>

#include "runner/report/run_summary.h"

namespace accel {

/// A section of a page; empty where the run was not planned.
std::string plan_table(const RunSummary& run);

/// The same for a terminal, columns under one another; none where the run was not planned.
std::vector<std::string> plan_table_lines(const RunSummary& run);

}  // namespace accel
