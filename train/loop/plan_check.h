// Comparison of a run's planned with its actual memory, compute and step time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/api/tracker.h"
#include "track/record.h"
#include "train/job/job.h"
#include "train/step/stopwatch.h"

namespace accel {

/// The plan's estimates for rank 0; 0: no estimate.
struct Forecast {
  int64_t parameters = 0;
  int64_t memory = 0;       ///< peak bytes of the process
  double flops = 0;         ///< of one optimizer step, over all ranks
  double step_seconds = 0;  ///< of an optimizer step, without evaluations and saves
};

/// Compares a forecast with the run after the first step and at the end. Does nothing without a
/// forecast.
class PlanCheck {
 public:
  PlanCheck() = default;
  PlanCheck(const std::optional<Forecast>& forecast, RunRecord& record)
      : forecast_(forecast), record_(&record) {}

  /// The forecast for the record's plan: "parameters", "memory_mib", "flops", "step_seconds".
  static std::vector<Measurement> planned(const Forecast& forecast);

  /// Records the actual values so far and returns the comparison: "1290
  /// parameters, as planned; memory 190.1 MiB, planned 180.0 MiB (x 1.06); a step 0.1 s, 12
  /// GFLOP/s". `steps`: the steps that `watch` has timed.
  std::optional<std::string> look(const Job& job, int64_t step, int64_t steps,
                                  const Stopwatch& watch) const;

 private:
  std::optional<Forecast> forecast_;
  RunRecord* record_ = nullptr;
};

}  // namespace accel
