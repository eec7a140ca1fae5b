// Reward modeling: the Bradley-Terry model of preferences (Ouyang et al., 2022).
#include <ATen/ops/log_sigmoid.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/tensor.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/recipe/registry.h"
#include "train/tasks/completion_scores.h"
#include "train/tasks/model_needs.h"
#include "train/tasks/preference_task.h"
#include "train/tasks/uses_pair_margins.h"

namespace accel {
namespace {

struct RewardOptions {
  double center_rewards_coefficient = 0;
  bool dropout = false;
};

/// -log sigmoid(r_chosen - r_rejected - margin), with the margins of the pairs in the field
/// `margin`.
class Reward final : public PreferenceTask, public WholeSequences, public UsesPairMargins {
 public:
  static constexpr auto kName = "reward";
  static constexpr auto kSummary =
      "Reward modeling: a model with one output per text scores chosen answers above rejected "
      "ones.";

  static Schema<RewardOptions> schema() {
    return Schema<RewardOptions>()
        .field("center_rewards_coefficient", &RewardOptions::center_rewards_coefficient,
               "Weight of the squared sum of both rewards, which keeps rewards around 0; 0.01 is "
               "usual.",
               at_least(0.0))
        .field("dropout", &RewardOptions::dropout, kDropoutHelp)
        .hint_for({"disable_dropout"}, "true>false|false>true|{}");
  }

  Reward(const RewardOptions& options, const TaskContext& context)
      : PreferenceTask(kName, context, options.dropout),
        center_(options.center_rewards_coefficient) {}

  std::vector<std::string> metrics() const override { return {"rewards"}; }
  std::vector<std::string> default_metrics() const override { return metrics(); }

  void set_margins(PairMarginOf train, PairMarginOf eval) override {
    train_margin_ = std::move(train);
    eval_margin_ = std::move(eval);
  }

  Evaluation evaluate(Model& model, const Batch& batch) override {
    const ScoredPairs scored = score_with(eval_margin_, model, batch);
    return {scored.loss, scored.rows};
  }

 protected:
  ScoredPairs score(Model& model, const Batch& batch, const TokenMean& /*mean*/) override {
    return score_with(train_margin_, model, batch);
  }

 private:
  ScoredPairs score_with(const PairMarginOf& margin, Model& model, const Batch& batch) const {
    const Batch rows = pair_rows(batch);
    const at::Tensor out = model.forward_batch(rows).to(at::kFloat);
    if (out.numel() != rows.size() || out.size(0) != rows.size()) {
      throw Error(ExitCode::kRecipe,
                  "the task 'reward' needs one output per text, but the model's output is " +
                      shape_text(out) + " for " + std::to_string(rows.size()) + " texts",
                  "set 'num_labels: 1' of a model such as llama");
    }
    const auto rewards = out.flatten().chunk(2);
    at::Tensor lead = rewards[0].sub(rewards[1]);
    if (margin) lead = lead.sub(margins_of(margin, batch).to(lead.device()));
    at::Tensor loss = at::log_sigmoid(lead).mean().neg();
    if (center_ > 0) loss = loss.add(rewards[0].add(rewards[1]).square().mean().mul(center_));
    return {loss, at::stack({rewards[0], rewards[1]}, 1).detach()};
  }

  static at::Tensor margins_of(const PairMarginOf& margin, const Batch& batch) {
    std::vector<float> values;
    for (const int64_t id : batch.ids) values.push_back(static_cast<float>(margin(id)));
    return at::tensor(values);
  }

  double center_;
  PairMarginOf train_margin_, eval_margin_;
};

const Register<Reward> reward;

}  // namespace
}  // namespace accel
