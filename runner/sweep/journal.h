// What a sweep has done, on the disk: a sweep that was killed goes on from it.
#pragma once

#include <string>
#include <vector>

#include "runner/sweep/stages.h"
#include "runner/sweep/trials.h"

namespace accel {

/// `sweep.jsonl`: the first line says what is tried, each other one how a trial ended a stage. A
/// line is on the disk before add() returns; one that a crash tore is dropped.
class SweepJournal {
 public:
  /// Opens the journal, or begins one. Throws Error (recipe) when there is one of other values,
  /// IoError when it cannot be read or written.
  SweepJournal(std::string path, const SweepOptions& sweep, const std::vector<Trial>& trials);
  ~SweepJournal();
  SweepJournal(const SweepJournal&) = delete;
  SweepJournal& operator=(const SweepJournal&) = delete;

  /// What was in the file.
  const std::vector<StageResult>& results() const { return results_; }
  void add(const StageResult& result);

 private:
  void append(const std::string& line);

  std::string path_;
  int fd_ = -1;
  std::vector<StageResult> results_;
};

}  // namespace accel
