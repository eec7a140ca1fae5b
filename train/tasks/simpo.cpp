// Simple preference optimization (Meng, Xia and Chen, 2024).
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/stack.h>

#include <string>
#include <vector>

#include "core/recipe/registry.h"
#include "train/tasks/completion_scores.h"
#include "train/tasks/model_needs.h"
#include "train/tasks/preference_task.h"

namespace accel {
namespace {

struct SimpoOptions {
  double beta = 2;
  double gamma = 1;
  double label_smoothing = 0;
  double sft_weight = 0;
  bool dropout = false;
};

class Simpo final : public PreferenceTask, public WholeSequences {
 public:
  static constexpr auto kName = "simpo";
  static constexpr auto kSummary =
      "Preference optimization on mean log-probabilities with a margin; needs no reference.";

  static Schema<SimpoOptions> schema() {
    return Schema<SimpoOptions>()
        .field("beta", &SimpoOptions::beta,
               "Scale of the mean log-probabilities. Higher values make the loss flat for pairs "
               "that are separated.",
               more_than(0.0))
        .field("gamma", &SimpoOptions::gamma,
               "Margin by which beta times the mean log-probability of chosen answers is to exceed "
               "that of rejected ones.",
               at_least(0.0))
        .hint_for({"simpo_gamma"})
        .field("label_smoothing", &SimpoOptions::label_smoothing,
               "Assumed share of pairs with swapped labels.", within(0.0, 0.5))
        .field("sft_weight", &SimpoOptions::sft_weight,
               "Weight of the cross-entropy on chosen answers added to the loss (CPO-SimPO).",
               at_least(0.0))
        .hint_for({"cpo_alpha", "pref_ftx"})
        .field("dropout", &SimpoOptions::dropout, kDropoutHelp)
        .hint_for({"disable_dropout"}, "true>false|false>true|{}");
  }

  Simpo(const SimpoOptions& options, const TaskContext& context)
      : PreferenceTask(kName, context, options.dropout), options_(options) {}

 protected:
  ScoredPairs score(Model& model, const Batch& batch, const TokenMean& mean) override {
    const double smoothing = options_.label_smoothing;
    const CompletionScores scores = score_completions(kName, model, pair_rows(batch));
    const auto means = scores.log_probs.div(scores.tokens).chunk(2);
    const at::Tensor margin = means[0].sub(means[1]).mul(options_.beta).sub(options_.gamma);
    at::Tensor loss = at::log_sigmoid(margin).neg();
    if (smoothing > 0) {
      loss = loss.mul(1 - smoothing).sub(at::log_sigmoid(margin.neg()).mul(smoothing));
    }
    loss = loss.mean();
    if (options_.sft_weight > 0) {
      loss = loss.sub(mean.of(scores.log_probs.chunk(2)[0].sum()).mul(options_.sft_weight));
    }
    const at::Tensor columns = at::stack(
        {means[0].mul(options_.beta), means[1].mul(options_.beta), means[0], means[1]}, 1);
    return {loss, columns.detach()};
  }
  bool has_cross_entropy() const override { return options_.sft_weight > 0; }
  double tokens(const Batch& batch) const override { return chosen_tokens(batch); }

 private:
  SimpoOptions options_;
};

const Register<Simpo> simpo;

}  // namespace
}  // namespace accel
