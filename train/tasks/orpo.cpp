// Odds ratio preference optimization (Hong, Lee and Thorne, 2024).
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full.h>
#include <ATen/ops/log1p.h>
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/where.h>

#include <cmath>
#include <string>
#include <vector>

#include "core/api/targets.h"
#include "core/recipe/registry.h"
#include "train/tasks/completion_scores.h"
#include "train/tasks/model_needs.h"
#include "train/tasks/preference_task.h"

namespace accel {
namespace {

struct OrpoOptions {
  double beta = 0.1;
  bool dropout = false;
};

/// log(1 - exp(x)) of x < 0, by the branch that loses no digits (Maechler, 2012).
at::Tensor log_one_minus_exp(const at::Tensor& x) {
  return at::where(x.gt(-std::log(2.0)), x.expm1().neg().log(), at::log1p(x.exp().neg()));
}

/// The next token at each position of the rows, prompts included.
at::Tensor next_tokens(const Batch& rows) {
  const int64_t length = rows.inputs.size(1);
  const at::Tensor last = at::full({rows.inputs.size(0), 1}, kIgnoredTarget, rows.inputs.options());
  const at::Tensor next = at::cat({rows.inputs.narrow(1, 1, length - 1), last}, 1);
  const at::Tensor places = at::arange(1, length + 1, rows.lengths.options());
  return next.masked_fill(places.ge(rows.lengths.unsqueeze(1)), kIgnoredTarget);
}

class Orpo final : public PreferenceTask, public WholeSequences {
 public:
  static constexpr auto kName = "orpo";
  static constexpr auto kSummary =
      "Fine-tuning on chosen answers, plus the log odds ratio to rejected ones; needs no "
      "reference.";

  static Schema<OrpoOptions> schema() {
    return Schema<OrpoOptions>()
        .field("beta", &OrpoOptions::beta,
               "Weight of the odds ratio (lambda of the paper). Higher values separate the answers "
               "more, at the cost of the likelihood of chosen ones.",
               at_least(0.0))
        .field("dropout", &OrpoOptions::dropout, kDropoutHelp)
        .hint_for({"disable_dropout"}, "true>false|false>true|{}");
  }

  Orpo(const OrpoOptions& options, const TaskContext& context)
      : PreferenceTask(kName, context, options.dropout), beta_(options.beta) {}

 protected:
  /// The answers' log-probabilities are means over tokens. The cross-entropy covers the prompt of
  /// the chosen answer too, as TRL's.
  ScoredPairs score(Model& model, const Batch& batch, const TokenMean& mean) override {
    Batch rows = pair_rows(batch);
    const at::Tensor completions = rows.targets.ne(kIgnoredTarget);
    const int64_t pairs = batch.size();
    const at::Tensor learnt = next_tokens(rows).narrow(0, 0, pairs);
    rows.targets = at::cat({learnt, rows.targets.narrow(0, pairs, pairs)});
    const at::Tensor log_probs = target_log_probs(kName, model, rows);
    const at::Tensor nll = mean.of(log_probs.narrow(0, 0, pairs).sum()).neg();
    const at::Tensor means = log_probs.mul(completions).sum(1).div(completions.sum(1));
    const auto both = means.chunk(2), rest = log_one_minus_exp(means).chunk(2);
    const at::Tensor log_odds = both[0].sub(both[1]).sub(rest[0].sub(rest[1]));
    const at::Tensor ratio = at::log_sigmoid(log_odds);
    const at::Tensor loss = nll.sub(ratio.mul(beta_).mean());
    const at::Tensor columns = at::stack({both[0].mul(beta_), both[1].mul(beta_), both[0], both[1],
                                          nll.expand(pairs), ratio, log_odds},
                                         1);
    return {loss, columns.detach()};
  }
  bool has_cross_entropy() const override { return true; }
  double tokens(const Batch& batch) const override {
    const at::Tensor learnt = next_tokens(pair_rows(batch)).narrow(0, 0, batch.size());
    return learnt.ne(kIgnoredTarget).sum().item<double>();
  }
  std::vector<std::string> own_columns() const override {
    return {"nll_loss", "log_odds_ratio", "log_odds_chosen"};
  }

 private:
  double beta_;
};

const Register<Orpo> orpo;

}  // namespace
}  // namespace accel
