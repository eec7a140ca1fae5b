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

/// The tokens by which a batch's sum of cross-entropies is divided.
class TokenMean {
 public:
  /// A mean over the batch itself, which has `tokens`.
  explicit TokenMean(double tokens) : tokens_(tokens) {}
  /// The share of a batch with `weight` of the pairs `total` in the mean over a global batch, which
  /// has `tokens`: averaged by pairs, the shares are the mean.
  TokenMean(double tokens, double weight, double total) : tokens_(tokens * (weight / total)) {}

  at::Tensor of(const at::Tensor& sum) const { return sum.div(tokens_); }

 private:
  double tokens_;
};

/// Logs TRL's statistics of each step, `rewards/accuracies` among them. Updates run without
/// dropout, as disable_dropout of TRL, unless `dropout`. Losses are means over pairs; a
/// cross-entropy among them is a mean over the tokens of the global batch.
class PreferenceTask : public Task {
 public:
  /// Throws Error (kRecipe) unless the data has pairs.
  PreferenceTask(const char* name, const TaskContext& context, bool dropout);

  double weight(const Batch& batch) const override { return static_cast<double>(batch.size()); }
  at::Tensor loss(Model& model, const Batch& batch) override {
    return score(model, batch, mean_of(batch)).loss;
  }
  Evaluation evaluate(Model& model, const Batch& batch) override;
  double step(StepContext& context) override;

  std::vector<std::string> metrics() const override { return {"rewards", "logps"}; }
  std::vector<std::string> default_metrics() const override { return metrics(); }

 protected:
  virtual ScoredPairs score(Model& model, const Batch& batch, const TokenMean& mean) = 0;
  /// Whether score() uses the mean; the same on all ranks.
  virtual bool has_cross_entropy() const { return false; }
  /// The tokens of the cross-entropy.
  virtual double tokens(const Batch& /*batch*/) const { return 0; }
  /// Names of the means over the task's own columns.
  virtual std::vector<std::string> own_columns() const { return {}; }
  const char* name() const { return name_; }

 private:
  /// Of the batch itself.
  TokenMean mean_of(const Batch& batch) const {
    return TokenMean(has_cross_entropy() ? tokens(batch) : 0);
  }
  /// tokens() of the global batch.
  double all_tokens(StepContext& context) const;
  double update(StepContext& context, std::vector<at::Tensor>& rows);

  const char* name_;
  bool dropout_;
};

}  // namespace accel
