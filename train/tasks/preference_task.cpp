#include "train/tasks/preference_task.h"

#include <ATen/ops/zeros.h>

#include <optional>

#include "core/base/error.h"
#include "models/layers/dropout_off.h"
#include "train/tasks/step_weights.h"

namespace accel {
namespace {

double mean_of(const at::Tensor& column) {
  return column.to(at::kDouble).mean().item<double>();
}

void log_rows(const at::Tensor& rows, const std::vector<std::string>& own, StepContext& context) {
  const at::Tensor chosen = rows.select(1, kChosenReward), other = rows.select(1, kRejectedReward);
  context.log("rewards/chosen", mean_of(chosen));
  context.log("rewards/rejected", mean_of(other));
  context.log("rewards/accuracies", mean_of(chosen.gt(other)));
  context.log("rewards/margins", mean_of(chosen.sub(other)));
  if (rows.size(1) == kRejectedReward + 1) return;
  context.log("logps/chosen", mean_of(rows.select(1, kChosenLogProb)));
  context.log("logps/rejected", mean_of(rows.select(1, kRejectedLogProb)));
  for (size_t i = 0; i < own.size(); ++i) {
    context.log(own[i], mean_of(rows.select(1, kPairColumns + static_cast<int64_t>(i))));
  }
}

}  // namespace

PreferenceTask::PreferenceTask(const char* name, const TaskContext& context, bool dropout)
    : name_(name), dropout_(dropout) {
  const DataShape& data = context.data;
  if (has_sequence_pairs(data) && data.vocab > 0) return;
  throw Error(ExitCode::kRecipe,
              std::string("the task '") + name +
                  "' needs pairs of a chosen and a rejected answer, but a sample of the data is " +
                  name_of(data.input_type) + " " + to_string(data.input) + " with targets " +
                  to_string(data.target),
              "use the dataset 'preference'");
}

Evaluation PreferenceTask::evaluate(Model& model, const Batch& batch) {
  const ScoredPairs scored = score(model, batch, mean_of(batch));
  return {scored.loss, scored.rows};
}

double PreferenceTask::all_tokens(StepContext& context) const {
  if (!has_cross_entropy()) return 0;
  const auto& weights = dynamic_cast<const StepWeights&>(context);
  const std::vector<Batch>& batches = context.micro_batches();
  const at::Tensor sum = at::zeros({1}, at::kDouble);
  for (size_t i = 0; i < batches.size(); ++i) {
    if (weights.weight_of(i) > 0) *sum.mutable_data_ptr<double>() += tokens(batches[i]);
  }
  return *context.ranks().reduce(sum, Reduce::kSum).const_data_ptr<double>();
}

double PreferenceTask::update(StepContext& context, std::vector<at::Tensor>& rows) {
  const auto& weights = dynamic_cast<const StepWeights&>(context);
  const double total = all_tokens(context);
  return context.update(kRecipeOptimizer, [&](const Batch& batch) {
    const auto index = static_cast<size_t>(&batch - context.micro_batches().data());
    const double weight = weights.weight_of(index);
    // A micro-batch that does not count has a loss of any value.
    const TokenMean mean =
        weight > 0 ? TokenMean(total, weight, weights.total_weight()) : mean_of(batch);
    ScoredPairs scored = score(context.model(), batch, mean);
    rows.push_back(std::move(scored.rows));
    return std::move(scored.loss);
  });
}

double PreferenceTask::step(StepContext& context) {
  std::vector<at::Tensor> rows;
  std::optional<DropoutOff> scope;
  if (!dropout_) scope.emplace(context.model());
  const double loss = update(context, rows);
  log_rows(context.gather_for_metrics(rows), own_columns(), context);
  return loss;
}

}  // namespace accel
