// Journal of a sweep, from which a killed sweep resumes, and tables of its trials.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/append_file.h"
#include "runner/sweep/trials.h"

namespace accel {

/// `sweep.jsonl`: the first line describes the sweep, each other one the result of a trial in a
/// stage. add() returns after fsync(); a torn last line is dropped.
class SweepJournal {
 public:
  /// Opens or creates the journal. Throws Error (recipe) for the journal of another sweep, IoError
  /// when it cannot be read or written.
  SweepJournal(std::string path, const SweepOptions& sweep, const std::vector<Trial>& trials);

  /// Results found in the file.
  const std::vector<StageResult>& results() const { return results_; }
  void add(const StageResult& result);

 private:
  void append(const std::string& line);

  std::string path_;
  std::optional<AppendFile> file_;
  std::vector<StageResult> results_;
};

/// One line per trial under a header of the keys.
std::vector<std::string> trial_lines(const std::vector<Trial>& trials);

/// The same with metric, step and state, best first.
std::vector<std::string> ranking_lines(const SweepOptions& sweep, const std::vector<Trial>& trials,
                                       const SweepProgress& progress);

}  // namespace accel
