// What a run was planned to take, beside what it takes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tracker.h"
#include "runner/job/job.h"
#include "runner/loop/stopwatch.h"
#include "runner/track/record.h"

namespace accel {

/// What rank 0 is to take. 0: not foretold.
struct Forecast {
  int64_t parameters = 0;
  int64_t memory = 0;       ///< bytes that its process holds when it holds the most
  double flops = 0;         ///< of one optimizer step, over all ranks
  double step_seconds = 0;  ///< of an optimizer step, without evaluations and saves
};

/// Compares a forecast with the run, after the first step and at the end. Without a forecast it
/// does nothing.
class PlanCheck {
 public:
  PlanCheck() = default;
  PlanCheck(const std::optional<Forecast>& forecast, RunRecord& record)
      : forecast_(forecast), record_(&record) {}

  /// The forecast, for the record's plan: "parameters", "memory_mib", "flops", "step_seconds".
  static std::vector<Measurement> planned(const Forecast& forecast);

  /// Writes into the record what was taken until now, and returns a line that compares: "1290
  /// parameters, as planned; memory 190.1 MiB, planned 180.0 MiB (x 1.06); a step 0.1 s, 12
  /// GFLOP/s". `steps` are those of this process, in the times of `watch`.
  std::optional<std::string> look(const Job& job, int64_t step, int64_t steps,
                                  const Stopwatch& watch) const;

 private:
  std::optional<Forecast> forecast_;
  RunRecord* record_ = nullptr;
};

}  // namespace accel
