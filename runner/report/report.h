// Reports in HTML: on one run with its profile, and a comparison of several runs.
#pragma once

#include <string>
#include <vector>

#include "runner/report/run_summary.h"

namespace accel {

/// The most expensive operators and the memory of rank 0 in the latest profiled steps, and a list
/// of the other profiles. Empty without a readable profile.
std::string profile_section(const std::string& run_dir);

/// A whole HTML document on `run`. Recipe and samples are read from its folder.
std::string run_page(const RunSummary& run);

/// A whole HTML document: one chart per metric with the curves of all runs, their last values, and
/// the options in which their recipes differ. Needs at least two runs.
std::string compare_page(const std::vector<RunSummary>& runs);

/// Writes `run_dir`/report.html atomically at the end of a run, by its own process: the lock that
/// it still holds does not count as running. Throws Error and IoError.
void write_own_report(const std::string& run_dir);

/// Writes a report on one run, or a comparison of several, to `path`; default for one run:
/// report.html in its folder. Returns the path. Throws Error (exit code 2) for a folder that is not
/// a run and for several runs without a path; IoError.
std::string write_report(const std::vector<std::string>& run_dirs, const std::string& path);

}  // namespace accel
