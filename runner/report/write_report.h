// Puts a report where it can be opened.
#pragma once

#include <string>
#include <vector>

namespace accel {

/// Writes `run_dir`/report.html; an older one is replaced at once. For the run itself, once it has
/// ended: the lock that it still holds does not make it a running one. Throws Error and IoError.
void write_own_report(const std::string& run_dir);

/// Writes a report on one run, or one that compares several, to `path`; empty: report.html in the
/// one run's folder. Returns where it is. Throws Error (exit code 2) for a folder that is no run's,
/// and for several runs without a path; IoError.
std::string write_report(const std::vector<std::string>& run_dirs, const std::string& path);

}  // namespace accel
