// The deadline of this process: when it has to save and stop.
#pragma once

#include <limits>
#include <optional>
#include <string>

#include "core/base/environment.h"
#include "core/recipe/units.h"

namespace accel {

struct SlurmEnd {
  std::optional<double> seconds;  ///< since 1970; none without a job or a limit
  std::string note;               ///< for the log, when scontrol was asked; else ""
};

/// SLURM_JOB_END_TIME, which Slurm sets from version 22.05 on. Where a job lacks it, and `ask`, the
/// end that `scontrol show job` prints within five seconds. Throws Error for an invalid variable.
SlurmEnd slurm_end(const EnvironmentLookup& lookup, bool ask);

/// "EndTime=2026-11-24T23:59:00" of the output of scontrol, in local time; none for "Unknown".
std::optional<double> end_time_in(const std::string& shown);

/// The earlier of `checkpoint.deadline`, counted from the start of the process, and the end of the
/// Slurm job.
class Deadline {
 public:
  /// `ask_slurm`: asks scontrol where the variable SLURM_JOB_END_TIME is missing. One rank does,
  /// since all ranks stop with it.
  Deadline(const std::optional<Duration>& given, bool ask_slurm);

  /// What scontrol reported; "" when it was not asked.
  const std::string& note() const { return note_; }

  /// Seconds until the deadline; infinity without one.
  double seconds_left() const;
  /// Whether another step and a save might not fit, with twice their durations as a margin.
  bool near(double step_seconds, double save_seconds) const {
    return seconds_left() < 2 * (step_seconds + save_seconds) + kMargin;
  }

 private:
  static constexpr double kMargin = 1;

  std::string note_;
  double end_ = std::numeric_limits<double>::infinity();  // seconds since 1970
};

}  // namespace accel
