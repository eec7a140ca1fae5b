// The frozen reference of preference tasks: another model, or the trained one without its adapter.
#pragma once

#include <memory>
#include <vector>

#include "core/api/task.h"
#include "core/recipe/registry.h"

namespace accel {

inline constexpr auto kReferenceHelp =
    "The frozen model that the trained one is compared with, usually the same section as 'model'. "
    "auto: with LoRA, the model without its adapter, which costs no memory.";

class ReferenceModel {
 public:
  ReferenceModel(const Auto<Ref<Model>>& model, const TaskContext& context);

  /// For Task::models().
  std::vector<TaskModel> models() const;
  /// Whether the reference is the trained model without its adapter.
  bool is_adapter_off() const { return !model_; }
  /// As score_completions(), without gradients: [rows] F32. `trained` is the recipe's model.
  at::Tensor log_probs(const char* task, Model& trained, const Batch& rows) const;
  /// As target_log_probs(), without gradients: [rows, length] F32.
  at::Tensor token_log_probs(const char* task, Model& trained, const Batch& rows,
                             double temperature = 1) const;

 private:
  std::unique_ptr<Model> model_;
};

}  // namespace accel
