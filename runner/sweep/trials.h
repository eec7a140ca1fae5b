// The trials of a sweep, their progress and the selection of the next ones.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "runner/sweep/sweep_file.h"

namespace accel {

/// A recipe key with its value in a trial.
struct TrialValue {
  std::string key;
  Node value;  ///< with its position in the sweep's file
};

struct Trial {
  std::string name;                ///< name of its folder: "trial_007"
  std::vector<TrialValue> values;  ///< values that differ between trials
};

/// All trials in a fixed order: grid combinations x paired rows x random draws. A draw depends only
/// on the seed, its index and the key. Throws Error for more than 10,000.
std::vector<Trial> trials_of(const SweepOptions& sweep);

/// "optimizer.lr=0.01", as on a command line.
std::string override_text(const TrialValue& value);

/// A value for display: "0.01", "[64, 64]".
std::string value_text(const TrialValue& value);

/// Result of a trial in a stage.
struct StageResult {
  size_t trial = 0;
  size_t stage = 0;
  bool failed = false;
  int code = 0;                               ///< exit code of its process
  int64_t step = 0;                           ///< last step
  std::map<std::string, double> values = {};  ///< last finite value of each metric

  /// It finished, but missed an expectation of its recipe.
  bool missed() const { return !failed && code == static_cast<int>(ExitCode::kOther); }
};

/// Selects the trials of each stage from results, which arrive in any order. Independent of
/// processes.
class SweepProgress {
 public:
  SweepProgress(const SweepOptions& sweep, size_t trials);

  /// A later result of the same trial and stage replaces the earlier one.
  void add(const StageResult& result);

  size_t stages() const { return stages_.size(); }
  /// The first stage with trials without a result; stages() at the end.
  size_t stage() const;
  /// Trials of `stage`, sorted by the ranking of the previous stage; in the first stage in order.
  /// Valid up to stage().
  std::vector<size_t> entrants(size_t stage) const;
  /// Trials of the current stage without a result.
  std::vector<size_t> waiting() const;
  /// The newest result of a trial; null without one.
  const StageResult* newest(size_t trial) const;
  /// All trials, best first: by stage reached, so that eliminated trials follow, then by the
  /// ranking. In a stage, trials without a value follow, then those that missed an expectation;
  /// failed trials are the last of all.
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
