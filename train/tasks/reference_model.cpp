#include "train/tasks/reference_model.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "core/base/error.h"
#include "core/base/text.h"
#include "kernels/choice.h"
#include "models/layers/module_state.h"
#include "models/lora/adapters_off.h"
#include "train/tasks/completion_scores.h"

namespace accel {

ReferenceModel::ReferenceModel(const Auto<Ref<Model>>& model, const TaskContext& context,
                               bool precompute)
    : made_from_(model), context_(context), is_adapter_off_(!model), precompute_(precompute) {
  if (!precompute_) this->model();
}

std::vector<TaskModel> ReferenceModel::models() const {
  if (!model_ || precompute_) return {};
  return {{.name = "reference", .model = model_.get(), .in_checkpoints = false}};
}

Model* ReferenceModel::model() const {
  if (is_adapter_off_) return nullptr;
  if (!model_) {
    model_ = (*made_from_).make({context_.data});
    if (precompute_) {
      for (const Parameter& item : parameters_of(*model_)) item.local.set_requires_grad(false);
      set_training(*model_, false);
    }
  }
  return model_.get();
}

void ReferenceModel::set(ReferenceScores train, ReferenceScores eval) {
  train_ = std::move(train);
  eval_ = std::move(eval);
  is_set_ = true;
  model_.reset();
}

bool ReferenceModel::is_read() const {
  return is_set_ || (precompute_ && has_shapes_only());
}

at::Tensor ReferenceModel::rows_of(const Batch& batch, int64_t completions) const {
  if (!is_set_)
    return at::zeros({batch.size(), completions}, batch.inputs.options().dtype(at::kFloat));
  const at::Tensor index = at::tensor(batch.ids, at::kLong);
  return scores_->rows.index_select(0, index).to(batch.inputs.device());
}

at::Tensor ReferenceModel::mismatched_of(const Batch& batch) const {
  std::vector<float> found;
  for (size_t i = 0; is_set_ && i < batch.ids.size(); ++i) {
    const int64_t answer = batch.ids[i == 0 ? batch.ids.size() - 1 : i - 1];
    const auto score = scores_->mismatched.find({batch.ids[i], answer});
    if (score == scores_->mismatched.end()) {
      throw Error(ExitCode::kRecipe,
                  text("'precompute_ref_log_probs' has no score for the answer of sample {} after "
                       "the prompt of sample {}: the run is longer than at its start, or has other "
                       "micro-batches",
                       answer, batch.ids[i]),
                  "resume the run: the scores are computed for its present length");
    }
    found.push_back(score->second);
  }
  if (!is_set_) found.assign(batch.ids.size(), 0);
  return at::tensor(found, at::kFloat).to(batch.inputs.device());
}

at::Tensor ReferenceModel::log_probs(const char* task, Model& trained, const Batch& rows) const {
  return token_log_probs(task, trained, rows).sum(1);
}

at::Tensor ReferenceModel::token_log_probs(const char* task, Model& trained, const Batch& rows,
                                           double temperature) const {
  const at::NoGradGuard no_grad;
  if (Model* const own = model()) return target_log_probs(task, *own, rows, temperature);
  const AdaptersOff base;
  return target_log_probs(task, trained, rows, temperature);
}

}  // namespace accel
