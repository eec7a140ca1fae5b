// The run record metrics.jsonl, written independently of trackers, and the comparison of two.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "core/api/tracker.h"
#include "core/base/append_file.h"
#include "core/base/bytes.h"
#include "track/record_rewind.h"

namespace accel {

/// One optimizer step, in enough detail to find the first step at which two runs differ.
struct StepRecord {
  int64_t step = 0;     ///< optimizer steps done, this one included
  int64_t epoch = 0;    ///< of the step's last sample, 0-based
  int64_t samples = 0;  ///< consumed since the start, this step included
  double loss = 0;
  std::optional<double> grad_norm = {};  ///< before clipping; null when not measured
  double lr = 0;                         ///< of the first parameter group
  uint64_t ids_digest = 0;               ///< of the sample ids, in order
  bool skipped = false;                  ///< fp16 overflow: no update
};

/// One JSON object per line, `step` first:
///   {"step":1,"epoch":0,"samples":64,"loss":2.5,"loss_bits":"4004000000000000",...}
///   {"step":100,"eval":{"eval/accuracy":0.97}}
///   {"step":100,"use":{"time/data":0.5,"memory_mib":180.2}}
///   {"step":100,"event":"save","text":"checkpoint_100","time":"2026-01-31T12:00:00Z"}
/// Numbers parse back bit-exact; NaN and infinities are null (`loss_bits` has the bits). Only
/// events have a time, so that all other lines of equal runs are equal. Failures are IoErrors.
class RunRecord {
 public:
  /// Discards everything, for ranks that do not write.
  RunRecord() = default;
  /// Resumes after `first_step` steps, as rewind_record() does.
  RunRecord(const std::string& path, int64_t first_step, const std::optional<RecordMark>& mark = {},
            bool eval_pending = false);

  /// What was missing or damaged in the file; empty when nothing was.
  const std::string& problem() const { return rewound_.problem; }
  /// All lines so far, for the checkpoint. Call sync() first.
  RecordMark mark() const { return {rewound_.bytes, rewound_.checksum.value()}; }

  /// Does not allocate after the first lines.
  void step(const StepRecord& record);
  /// Results of an evaluation after `step` steps.
  void evaluation(int64_t step, std::span<const Measurement> results) {
    measurements(step, "eval", results);
  }
  /// Metrics of a log interval, as passed to trackers.
  void log(int64_t step, std::span<const Measurement> values) { measurements(step, "log", values); }
  /// Resource use since the last call: seconds of "time/data" and other phases, "memory_mib".
  void use(int64_t step, std::span<const Measurement> values) { measurements(step, "use", values); }
  /// Planned length and save interval: "total_steps", ...
  void plan(int64_t step, std::span<const Measurement> values) {
    measurements(step, "plan", values);
  }
  /// Measured values of planned quantities: "memory_mib", ...
  void actual(int64_t step, std::span<const Measurement> values) {
    measurements(step, "actual", values);
  }
  /// Model, data and hardware: {"device", "cpu, 2 threads"}, ...
  void about(int64_t step, const ConfigValues& texts);
  /// "start", "resume", "save", "stop", ... with a message.
  void event(int64_t step, const std::string& name, const std::string& text);
  /// Makes all lines readable by other processes.
  void flush() {
    if (file_) file_->flush();
  }
  /// Drops the lines that are not flushed: the file belongs to another process now.
  void abandon() {
    [[maybe_unused]] const AppendFile* leaked = file_.release();  // its destructor would write
  }
  /// As flush(), then fsync(): a checkpoint must not be newer than the record of its steps.
  void sync() {
    if (file_) file_->sync();
  }

 private:
  void measurements(int64_t step, const char* key, std::span<const Measurement> values);

  void append(std::string_view line) {
    if (!file_) return;
    file_->append(line);
    rewound_.bytes += line.size();
    rewound_.checksum.update(as_bytes(line));
  }

  RewoundRecord rewound_;
  std::unique_ptr<AppendFile> file_;
  std::string line_;  ///< buffer of step(), reused
};

/// The first quantity that differs between two records (metrics.jsonl), a step's inputs before its
/// results: "step 12: loss is 0.5 and 0.25". Null when all steps and evaluations are bit-identical;
/// events and timings are not compared. Warns of damaged lines, which it skips. Throws IoError for
/// an unreadable file.
std::optional<std::string> first_difference(const std::string& record_a,
                                            const std::string& record_b);

}  // namespace accel
