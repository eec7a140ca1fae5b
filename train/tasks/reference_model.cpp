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
  return token_log_probs(task, trained, rows).sum(1);
}

at::Tensor ReferenceModel::token_log_probs(const char* task, Model& trained, const Batch& rows,
                                           double temperature) const {
  const at::NoGradGuard no_grad;
  if (model_) return target_log_probs(task, *model_, rows, temperature);
  const AdaptersOff base;
  return target_log_probs(task, trained, rows, temperature);
}

}  // namespace accel
