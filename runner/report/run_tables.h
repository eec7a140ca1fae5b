// Tables and cards of a report.
#pragma once

#include <string>
#include <vector>

#include "runner/report/run_summary.h"

namespace accel {

/// "running", "finished", "crashed", ...
const char* standing_words(RunStanding standing);

/// "2 damaged lines of the record are left out"; empty without any.
std::string damaged_words(const RunSummary& run);

/// The cards at the top: steps, time, loss, results.
std::string headline_cards(const RunSummary& run);
/// Failures and warnings of the run; empty without any.
std::string trouble(const RunSummary& run);
/// Time per phase as a bar and a list; empty if not recorded.
std::string time_split(const RunSummary& run);
/// Starts, resumes, changes of the recipe, failures, saves.
std::string event_table(const RunSummary& run);
/// Versions, machine, model and data.
std::string about_table(const RunSummary& run);
/// The resolved recipe in the run's folder with the origin of each value; empty if missing.
std::string recipe_text(const std::string& run_dir);
/// The sample images of the run; empty without any.
std::string sample_images(const std::string& run_dir);

/// A section of a page; empty without a plan.
std::string plan_table(const RunSummary& run);

/// The same as aligned lines for a terminal; none without a plan.
std::vector<std::string> plan_table_lines(const RunSummary& run);

}  // namespace accel
