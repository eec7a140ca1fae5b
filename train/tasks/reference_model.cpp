#include "train/tasks/reference_model.h"

#include <ATen/core/grad_mode.h>

#include "models/lora/adapters_off.h"
#include "train/tasks/completion_scores.h"

namespace accel {

ReferenceModel::ReferenceModel(const Auto<Ref<Model>>& model, const TaskContext& context) {
  if (model) model_ = (*model).make({context.data});
}

std::vector<TaskModel> ReferenceModel::models() const {
  if (!model_) return {};
  return {{.name = "reference", .model = model_.get(), .in_checkpoints = false}};
}

at::Tensor ReferenceModel::log_probs(const char* task, Model& trained, const Batch& rows) const {
  const at::NoGradGuard no_grad;
  if (model_) return score_completions(task, *model_, rows).log_probs;
  const AdaptersOff base;
  return score_completions(task, trained, rows).log_probs;
}

}  // namespace accel
