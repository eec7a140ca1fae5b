#include "train/tasks/preference_task.h"

#include "core/base/error.h"
#include "models/layers/dropout_off.h"

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
  const ScoredPairs scored = score(model, batch);
  return {scored.loss, scored.rows};
}

double PreferenceTask::step(StepContext& context) {
  std::vector<at::Tensor> rows;
  const auto update = [&] {
    return context.update(kRecipeOptimizer, [&](const Batch& batch) {
      ScoredPairs scored = score(context.model(), batch);
      rows.push_back(std::move(scored.rows));
      return std::move(scored.loss);
    });
  };
  double loss = 0;
  if (dropout_) {
    loss = update();
  } else {
    const DropoutOff scope(context.model());
    loss = update();
  }
  log_rows(context.gather_for_metrics(rows), own_columns(), context);
  return loss;
}

}  // namespace accel
