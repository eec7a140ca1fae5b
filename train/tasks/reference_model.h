// The frozen reference of preference tasks: another model, or the trained one without its adapter.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "core/api/task.h"
#include "core/recipe/registry.h"

namespace accel {

/// Log-probabilities of completions under the reference, of the samples of a dataset.
struct ReferenceScores {
  at::Tensor rows;  ///< [samples, completions of a sample] F32 on the CPU, by Batch::ids
  /// Of the mismatched answers of a micro-batch, by the id of the prompt and that of the answer.
  std::map<std::pair<int64_t, int64_t>, float> mismatched = {};
};

/// Implemented by tasks whose reference may be replaced by its scores.
class PrecomputesReference {
 public:
  virtual ~PrecomputesReference() = default;
  virtual bool precomputes_reference() const = 0;
  /// Whether scores of mismatched answers belong to it, which depend on the micro-batches.
  virtual bool mismatches_answers() const { return false; }
  /// The reference model, made at the first call; null: the trained model without its adapter.
  virtual Model* reference_model() = 0;
  /// ReferenceScores::rows of a batch, without gradients.
  virtual at::Tensor reference_rows(Model& trained, const Batch& batch) = 0;
  /// Adds the mismatched answers of a micro-batch.
  virtual void add_mismatched(Model& /*trained*/, const Batch& /*batch*/,
                              ReferenceScores& /*scores*/) {}
  /// Replaces the reference, of which the memory is freed.
  virtual void set_reference(ReferenceScores train, ReferenceScores eval) = 0;
};

inline constexpr auto kReferenceHelp =
    "The frozen model that the trained one is compared with, usually the same section as 'model'. "
    "auto: with LoRA, the model without its adapter, which costs no memory.";

inline constexpr auto kPrecomputeHelp =
    "Compute the reference's log-probabilities of all samples before the first step, and train "
    "without the reference in memory; TRL's option. The losses are the same.";

class ReferenceModel {
 public:
  /// `precompute`: the model is made when it is needed, and not one of models().
  ReferenceModel(const Auto<Ref<Model>>& model, const TaskContext& context,
                 bool precompute = false);

  /// For Task::models().
  std::vector<TaskModel> models() const;
  /// Whether the reference is the trained model without its adapter.
  bool is_adapter_off() const { return is_adapter_off_; }
  bool precomputes() const { return precompute_; }
  /// The reference model, made at the first call; null: the trained model without its adapter.
  Model* model() const;
  /// Scores take its place.
  void set(ReferenceScores train, ReferenceScores eval);
  /// Which of the two scores are of the batches to come.
  void use_eval(bool eval) { scores_ = eval ? &eval_ : &train_; }
  /// Whether rows_of() and mismatched_of() have the scores. Without set(), as in an evaluation of a
  /// trained model, the reference is computed; an estimate of tensors without data has no
  /// reference.
  bool is_read() const;
  /// The scores of a batch, [samples, completions]; of tensors without data, zeros.
  at::Tensor rows_of(const Batch& batch, int64_t completions) const;
  /// Of the mismatched answers of a micro-batch: [samples]. Throws Error (kRecipe) for a
  /// micro-batch that was not foreseen.
  at::Tensor mismatched_of(const Batch& batch) const;
  /// As score_completions(), without gradients: [rows] F32. `trained` is the recipe's model.
  at::Tensor log_probs(const char* task, Model& trained, const Batch& rows) const;
  /// As target_log_probs(), without gradients: [rows, length] F32.
  at::Tensor token_log_probs(const char* task, Model& trained, const Batch& rows,
                             double temperature = 1) const;

 private:
  Auto<Ref<Model>> made_from_;
  TaskContext context_;
  bool is_adapter_off_;
  bool precompute_;
  bool is_set_ = false;
  mutable std::unique_ptr<Model> model_;
  ReferenceScores train_;
  ReferenceScores eval_;
  const ReferenceScores* scores_ = &train_;
};

}  // namespace accel
