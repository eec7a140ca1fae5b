// How far a sweep is, and what comes next.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/error.h"
#include "runner/sweep/sweep_file.h"

namespace accel {

/// How a trial ended a stage.
struct StageResult {
  size_t trial = 0;
  size_t stage = 0;
  bool failed = false;
  int code = 0;                               ///< its process's exit code
  int64_t step = 0;                           ///< it reached
  std::map<std::string, double> values = {};  ///< by metric, the last ones; finite

  /// It came to its end and did not meet what its recipe expects.
  bool missed() const { return !failed && code == static_cast<int>(ExitCode::kOther); }
};

/// Decides which trials go on. Knows nothing of processes: it is told results, in any order.
class SweepProgress {
 public:
  SweepProgress(const SweepOptions& sweep, size_t trials);

  /// A second result of the same trial and stage replaces the first.
  void add(const StageResult& result);

  size_t stages() const { return stages_.size(); }
  /// The stage that has trials without a result; stages() when the sweep is over.
  size_t stage() const;
  /// Trials that take part in `stage`, the best of the stage before first, and in the first stage
  /// in their order. Only of a stage that stage() has reached.
  std::vector<size_t> entrants(size_t stage) const;
  /// Those of the stage under way that have no result.
  std::vector<size_t> waiting() const;
  /// The newest result of a trial; null before there is one.
  const StageResult* newest(size_t trial) const;
  /// All trials, the best first: those that came further, then by the ranking; those without a
  /// value after those that have one, then those that missed what is expected of them, and those
  /// that failed last.
  std::vector<size_t> ranking() const;
  bool any_failed() const;
  bool any_missed() const;

 private:
  template <class Holds>
  bool any(const Holds& holds) const;
  bool better(size_t a, size_t b, size_t stage, const std::string& by, Better mode) const;
  const StageResult* result(size_t trial, size_t stage) const;

  RankingSection ranking_;
  std::vector<StageSection> stages_;  ///< at least one
  size_t trials_;
  std::vector<std::map<size_t, StageResult>> results_;  ///< by stage and trial
};

}  // namespace accel
