// The common part of tasks on preference pairs.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/api/model.h"
#include "core/api/sequence_pairs.h"
#include "core/api/task.h"

namespace accel {

/// Help of the option `dropout`.
inline constexpr auto kDropoutHelp =
    "Whether the model's dropout stays active in updates. false, as TRL's disable_dropout, "
    "compares "
    "log-probabilities without its noise.";

/// Loss and rows of a batch of pairs.
struct ScoredPairs {
  at::Tensor loss;  ///< the mean over pairs, 0-d
  at::Tensor rows;  ///< [pairs, columns] F32, detached; PairColumn first, then the task's own
};

/// Logs TRL's statistics of each step, `rewards/accuracies` among them. Updates run without
/// dropout, as disable_dropout of TRL, unless `dropout`.
class PreferenceTask : public Task {
 public:
  /// Throws Error (kRecipe) unless the data has pairs.
  PreferenceTask(const char* name, const TaskContext& context, bool dropout);

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }
  at::Tensor loss(Model& model, const Batch& batch) override { return score(model, batch).loss; }
  Evaluation evaluate(Model& model, const Batch& batch) override;
  double step(StepContext& context) override;

  std::vector<std::string> metrics() const override { return {"rewards", "logps"}; }
  std::vector<std::string> default_metrics() const override { return metrics(); }

 protected:
  virtual ScoredPairs score(Model& model, const Batch& batch) = 0;
  /// Names of the means over the task's own columns.
  virtual std::vector<std::string> own_columns() const { return {}; }
  const char* name() const { return name_; }

 private:
  const char* name_;
  bool dropout_;
};

}  // namespace accel
