// The run's own account of itself: metrics.jsonl, written whatever trackers there are.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/tracker.h"
#include "runner/track/append_file.h"

namespace accel {

/// What one optimizer step did: enough to tell two runs apart at the first step that differs.
struct StepRecord {
  int64_t step = 0;     ///< optimizer steps done, this one included
  int64_t epoch = 0;    ///< of the step's last sample, from 0
  int64_t samples = 0;  ///< consumed since the start, this step's included
  double loss = 0;
  std::optional<double> grad_norm = {};  ///< before clipping; null when not measured
  double lr = 0;                         ///< of the first parameter group
  uint64_t ids_digest = 0;               ///< of the sample ids, in order
  bool skipped = false;                  ///< fp16 overflowed: nothing was updated
};

/// One JSON object per line, `step` always first:
///   {"step":1,"epoch":0,"samples":64,"loss":2.5,"loss_bits":"4004000000000000",...}
///   {"step":100,"eval":{"eval/accuracy":0.97}}
///   {"step":100,"use":{"time/data":0.5,"memory_mib":180.2}}
///   {"step":100,"event":"save","text":"checkpoint_100","time":"2026-01-31T12:00:00Z"}
/// Numbers read back bit for bit; nan and infinities are null (`loss_bits` tells them apart). Only
/// events carry a time, so that the other lines of equal runs are equal. Failures are IoErrors.
class RunRecord {
 public:
  /// Keeps nothing, for ranks that do not write.
  RunRecord() = default;
  /// Goes on after `first_step` steps: lines of later steps are dropped, and so is a line that a
  /// crash tore. At 0 the file starts empty.
  RunRecord(const std::string& path, int64_t first_step);

  /// Allocates nothing once the first lines are written.
  void step(const StepRecord& record);
  /// Results of an evaluation after `step` steps.
  void evaluation(int64_t step, std::span<const Measurement> results);
  /// What a log interval measured, as trackers get it.
  void log(int64_t step, std::span<const Measurement> values);
  /// What was used since the last one: seconds of "time/data" and other phases, "memory_mib".
  void use(int64_t step, std::span<const Measurement> values);
  /// How long the run will be and how often it saves: "total_steps", ...
  void plan(int64_t step, std::span<const Measurement> values);
  /// What it has taken so far, of what was planned: "memory_mib", ...
  void actual(int64_t step, std::span<const Measurement> values);
  /// What runs and where: {"device", "cpu, 2 threads"}, ...
  void about(int64_t step, const ConfigValues& texts);
  /// "start", "resume", "save", "stop", ... and what there is to say of it.
  void event(int64_t step, const std::string& name, const std::string& text);
  /// Makes everything so far readable by others.
  void flush() {
    if (file_) file_->flush();
  }
  /// As flush(), and waits for the disk: a checkpoint must not outlive the record of its steps.
  void sync() {
    if (file_) file_->sync();
  }

 private:
  void measurements(int64_t step, const char* key, std::span<const Measurement> values);

  void append(std::string_view line) {
    if (file_) file_->append(line);
  }

  std::unique_ptr<AppendFile> file_;
  std::string line_;  ///< a step's, whose memory the next one takes
};

}  // namespace accel
