// Summary of a run in bounded memory: its record, read once or followed, and its liveness.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/api/tracker.h"
#include "runner/report/chart.h"

namespace accel {

/// A line of RunRecord; fields that its kind lacks keep their defaults.
struct RecordLine {
  enum class Kind { kOther, kStep, kEval, kLog, kUse, kPlan, kActual, kAbout, kEvent };

  Kind kind = Kind::kOther;
  int64_t step = -1;
  double epoch = 0;
  double samples = 0;
  double loss = 0;  ///< nan for every non-finite value
  std::optional<double> grad_norm = {};
  double lr = 0;
  bool skipped = false;
  std::vector<Measurement> values = {};                         ///< eval, log, use, plan, actual
  std::vector<std::pair<std::string, std::string>> texts = {};  ///< about
  std::string event = {}, text = {}, time = {};
};

/// Nothing for a torn line or one that is not a JSON object with a step.
std::optional<RecordLine> read_record_line(std::string_view line);

/// kNobody: no process holds the run. kSilent: the process ended without a record of it, as after a
/// kill. kElsewhere: it runs on another machine or in another container.
enum class RunPulse { kNobody, kAlive, kSilent, kElsewhere };

/// Reads `run_dir`/run.lock without locking it, so that readers never block a run. Sets `holder` to
/// the holder's description: "process 12 on host 'a'".
RunPulse run_pulse(const std::string& run_dir, std::string& holder);

struct RunEvent {
  int64_t step = 0;
  std::string name;  ///< "start", "resume", "changed", "failed", ...
  std::string text;
  std::string time;
};

/// State of a run.
enum class RunStanding { kRunning, kFinished, kInterrupted, kFailed, kCrashed, kUnknown, kPaused };

struct RunSummary {
  std::string folder;  ///< as given
  std::string name;    ///< name of the folder
  int64_t step = 0;
  double epoch = 0;
  double samples = 0;
  Curve loss, grad_norm, lr;            ///< of every step
  std::map<std::string, Curve> logged;  ///< "train/samples_per_second", "eval/accuracy", ...
  int64_t names_left_out = 0;           ///< metrics beyond the limit of names
  int64_t damaged_lines = 0;            ///< of the record
  int64_t skipped = 0;                  ///< steps without an update
  int64_t first_skipped = -1;
  int64_t steps_read = 0;
  std::map<std::string, double> seconds;                   ///< time per phase: {"data", 1.5}, ...
  std::map<std::string, double> last_seconds;              ///< the same for the last interval
  int64_t last_interval = 0;                               ///< its number of steps
  int64_t last_use = 0;                                    ///< its last step
  std::map<std::string, double> plan;                      ///< {"total_steps", 126}, ...
  std::map<std::string, double> actual;                    ///< measured: {"memory_mib", 180.5}, ...
  std::vector<std::pair<std::string, std::string>> about;  ///< of the last start
  std::vector<RunEvent> events;  ///< without saves; the first and last ones
  int64_t events_left_out = 0;
  int64_t saves = 0;
  RunEvent last_save;
  size_t events_before_save = 0;  ///< of `events`, those before the last save
  RunPulse pulse = RunPulse::kNobody;
  std::string holder;  ///< "process 12 on host 'a'"; empty: none

  /// Adds a line of the record.
  void add(const RecordLine& line);
  RunStanding standing() const;
  /// The last event of this name; null when there is none.
  const RunEvent* last_event(const std::string& name) const;
  /// A curve by its name; null when there is none.
  const Curve* curve(const std::string& name) const;
  /// 0 if not in the plan.
  double planned(const std::string& name) const;
  double total_seconds() const;

 private:
  void add_values(const RecordLine& line);
  void add_use(const RecordLine& line);
  void add_event(const RecordLine& line);
  bool paused() const;
};

/// Follows a run's record: reads the existing lines, then those appended.
class RunFollower {
 public:
  /// Throws Error (exit code 2) when `run_dir` has neither metrics.jsonl nor recipe.yaml.
  explicit RunFollower(const std::string& run_dir);

  /// Reads new lines; starts over when a resume has truncated the record. An unfinished line is
  /// read later.
  const RunSummary& update();

 private:
  void start_over();

  std::string path_;
  RunSummary summary_;
  int64_t offset_ = 0;
  uint64_t file_id_ = 0;
};

/// The current summary of a run. Throws as RunFollower does, and IoError.
RunSummary read_run(const std::string& run_dir);

}  // namespace accel
