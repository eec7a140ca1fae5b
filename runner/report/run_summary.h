// What a run's folder tells of it, in bounded memory, read anew or followed while it grows.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "runner/report/curve.h"
#include "runner/report/record_line.h"
#include "runner/report/run_pulse.h"

namespace accel {

struct RunEvent {
  int64_t step = 0;
  std::string name;  ///< "start", "resume", "changed", "failed", ...
  std::string text;
  std::string time;
};

/// How a run stands.
enum class RunStanding { kRunning, kFinished, kInterrupted, kFailed, kCrashed, kUnknown, kPaused };

struct RunSummary {
  std::string folder;  ///< as it was given
  std::string name;    ///< the folder's own
  int64_t step = 0;
  double epoch = 0;
  double samples = 0;
  Curve loss, grad_norm, lr;            ///< of every step
  std::map<std::string, Curve> logged;  ///< "train/samples_per_second", "eval/accuracy", ...
  int64_t names_left_out = 0;           ///< values under names beyond the most that are kept
  int64_t skipped = 0;                  ///< steps that updated nothing
  int64_t first_skipped = -1;
  int64_t steps_read = 0;
  std::map<std::string, double> seconds;       ///< where the time went: {"data", 1.5}, ...
  std::map<std::string, double> last_seconds;  ///< the same, of the last interval
  int64_t last_interval = 0;                   ///< its steps
  int64_t last_use = 0;                        ///< the step it ended with
  std::map<std::string, double> plan;          ///< {"total_steps", 126}, ...
  std::map<std::string, double> actual;        ///< of that: {"memory_mib", 180.5}, ...
  std::vector<std::pair<std::string, std::string>> about;  ///< of the last start
  std::vector<RunEvent> events;                            ///< all but saves; the first and last
  int64_t events_left_out = 0;
  int64_t saves = 0;
  RunEvent last_save;
  RunPulse pulse = RunPulse::kNobody;
  std::string holder;  ///< "process 12 on host 'a'"; empty: nobody

  /// Takes one more line of the record.
  void add(const RecordLine& line);
  RunStanding standing() const;
  /// The last event of this name; null when there is none.
  const RunEvent* last_event(const std::string& name) const;
  /// A curve by its name; null when there is none.
  const Curve* curve(const std::string& name) const;
  /// 0 when the plan does not tell.
  double planned(const std::string& name) const;
  double total_seconds() const;

 private:
  void add_values(const RecordLine& line);
  void add_use(const RecordLine& line);
  void add_event(const RecordLine& line);
  bool paused() const;
};

/// Reads a run's record as far as it has been written, and then what is added.
class RunFollower {
 public:
  /// Throws Error (exit code 2) when `run_dir` has neither metrics.jsonl nor recipe.yaml.
  explicit RunFollower(const std::string& run_dir);

  /// Reads what is new; starts over when the record was cut back by a resume. A line without its
  /// end is left for later.
  const RunSummary& update();

 private:
  void start_over();

  std::string path_;
  RunSummary summary_;
  int64_t offset_ = 0;
  uint64_t file_id_ = 0;
};

/// A run as it is now. Throws as RunFollower does, and IoError.
RunSummary read_run(const std::string& run_dir);

}  // namespace accel
