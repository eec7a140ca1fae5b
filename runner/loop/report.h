// What a run tells the person who started it.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/tracker.h"
#include "runner/job/job.h"
#include "runner/loop/run_state.h"
#include "runner/loop/stopwatch.h"

namespace accel {

/// Passes over the data, with the part of the current one: 1.25.
double epochs_done(const Job& job, const Progress& progress);

/// What the job is made of: {"device", "cpu, 2 threads, fp32"}, {"model", ...}, ...
ConfigValues job_facts(const Job& job);

/// What will run, where, how long and from which state: at most 25 lines.
std::vector<std::string> first_screen(const Job& job, const std::string& run_dir,
                                      const std::string& start);

/// "a batch is 256 samples, and the training data has 100: ..." where it is so; else empty.
std::string few_samples_warning(const Job& job);

/// "step 100/564  epoch 0.71  loss 0.2345  lr 0.001  grad 1.2  12,345 samples/s".
std::string log_line(const Job& job, const Progress& progress, std::span<const Measurement> values);

/// "eval at step 100  loss 0.1  accuracy 0.97".
std::string eval_line(const Progress& progress, std::span<const Measurement> values);

/// How it went and how to go on.
struct RunEnd {
  std::string headline;    ///< "done", "interrupted by signal 15", ...
  std::string run_dir;     ///< as the user would type it
  std::string checkpoint;  ///< empty when there is none
  std::string report;      ///< a file; empty when there is none
  bool finished = true;
};
std::vector<std::string> last_screen(const Job& job, const RunState& state, const Stopwatch& watch,
                                     const RunEnd& end);

/// Lines on each expectation, and whether all are met.
struct ExpectReport {
  std::vector<std::string> lines;
  bool met = true;
};
ExpectReport check_expectations(const Job& job, const RunState& state);

}  // namespace accel
