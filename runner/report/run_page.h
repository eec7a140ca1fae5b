// The report on one run.
#pragma once

#include <string>

#include "runner/report/run_summary.h"

namespace accel {

/// A whole HTML document on `run`, of which the folder is read for the recipe and the samples.
std::string run_page(const RunSummary& run);

}  // namespace accel
