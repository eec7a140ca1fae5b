// Parts of a report that are not curves.
#pragma once

#include <string>

#include "runner/report/run_summary.h"

namespace accel {

/// "running", "finished", "crashed", ...
const char* standing_words(RunStanding standing);

/// The numbers at the top: steps, time, loss, results.
std::string headline_cards(const RunSummary& run);
/// What ended the run other than its end, and what went wrong on the way; empty when nothing did.
std::string trouble(const RunSummary& run);
/// Where the time went, as a bar and a list; empty when the record does not tell.
std::string time_split(const RunSummary& run);
/// Starts, resumes, changes of the recipe, failures, saves.
std::string event_table(const RunSummary& run);
/// Versions, machine and what was trained.
std::string about_table(const RunSummary& run);
/// The resolved recipe as it lies in the run's folder, with where each value came from; empty when
/// it is not there.
std::string recipe_text(const std::string& run_dir);
/// The images that the run kept of its data; empty when there are none.
std::string sample_images(const std::string& run_dir);

}  // namespace accel
