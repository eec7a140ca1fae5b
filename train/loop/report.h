// Console output of a run: first screen, log lines, last screen, expectations.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/api/tracker.h"
#include "train/job/job.h"
#include "train/loop/run_state.h"
#include "train/step/stopwatch.h"

namespace accel {

/// Epochs done, with the fraction of the current one: 1.25.
double epochs_done(const Job& job, const Progress& progress);

/// The job's configuration: {"device", "cpu, 2 threads, fp32"}, {"model", ...}, ...
ConfigValues job_summary(const Job& job);

/// A number with four significant digits.
std::string rounded(double value);

/// Configuration, length and start of the run, then `notes`: at most 25 lines.
std::vector<std::string> first_screen(const Job& job, const std::string& run_dir,
                                      const std::string& start, const ConfigValues& notes = {});

/// A warning when the batch is larger than the training set; else empty.
std::string few_samples_warning(const Job& job);

/// "step 100/564  epoch 0.71  loss 0.2345  lr 0.001  grad 1.2  12,345 samples/s".
std::string log_line(const Job& job, const Progress& progress, std::span<const Measurement> values);

/// "eval at step 100  loss 0.1  accuracy 0.97".
std::string eval_line(const Progress& progress, std::span<const Measurement> values);

/// The outcome of a run, and how to resume it.
struct RunEnd {
  std::string headline;    ///< "done", "interrupted by signal 15", ...
  std::string run_dir;     ///< as the user would type it
  std::string checkpoint;  ///< empty when there is none
  std::string report;      ///< a file; empty when there is none
  bool finished = true;
};
std::vector<std::string> last_screen(const Job& job, const RunState& state, const Stopwatch& watch,
                                     const RunEnd& end);

/// A line for each expectation, and whether all are met.
struct ExpectReport {
  std::vector<std::string> lines;
  bool met = true;
};
ExpectReport check_expectations(const Job& job, const RunState& state);

}  // namespace accel
