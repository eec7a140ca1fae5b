// Classification: cross-entropy on one label per sample.
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "core/api/model.h"
#include "core/api/targets.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "models/layers/sampled_labels.h"
#include "train/tasks/divided_sequences.h"
#include "train/tasks/model_needs.h"

namespace accel {
namespace {

struct ClassificationOptions {
  double label_smoothing = 0.0;
  std::vector<double> class_weights;
};

class Classification final : public Task,
                             public DividedSequences,
                             public HasFixedPasses,
                             public SamplesLabels {
 public:
  static constexpr auto kName = "classification";
  static constexpr const char* kHintFor[] = {"cross_entropy", "image_classification",
                                             "text_classification", "sequence_classification"};
  static constexpr auto kSummary = "Cross-entropy on one label per sample.";

  static Schema<ClassificationOptions> schema() {
    return Schema<ClassificationOptions>()
        .field("label_smoothing", &ClassificationOptions::label_smoothing,
               "Probability spread over all classes. Makes the model less confident.",
               within(0.0, 1.0))
        .field("class_weights", &ClassificationOptions::class_weights,
               "Loss weight of each class; empty: equal.", each(more_than(0.0)));
  }

  Classification(const ClassificationOptions& options, const TaskContext& context)
      : label_smoothing_(options.label_smoothing) {
    const DataShape& data = context.data;
    if (data.target_type != DType::kI64) {
      throw Error(ExitCode::kRecipe,
                  std::string("the task 'classification' wants I64 class labels, but the targets "
                              "of the data are ") +
                      name_of(data.target_type) + " " + to_string(data.target),
                  "the task 'regression' takes numbers");
    }
    const size_t weights = options.class_weights.size();
    if (weights == 0) return;
    if (data.classes > 0 && weights != static_cast<size_t>(data.classes)) {
      throw Error(ExitCode::kRecipe,
                  text("'class_weights' has {} numbers, but the data has {} classes", weights,
                       data.classes));
    }
    class_weights_ = at::tensor(options.class_weights, at::kFloat);
  }

  bool has_fixed_passes() const override { return true; }

  double weight(const Batch& batch) const override {
    if (!class_weights_.defined()) return static_cast<double>(batch.targets.numel());
    const at::Tensor& targets = batch.readable_targets();
    return class_weights_.to(targets.device()).index_select(0, targets).sum().item<double>();
  }

  at::Tensor loss(Model& model, const Batch& batch) override {
    return equal_part(model, evaluate(model, batch).loss);
  }

  Evaluation evaluate(Model& model, const Batch& batch) override {
    const DividedEvaluation divided(context_ranks(model));
    const at::Tensor logits = logits_of(model, batch);
    std::optional<at::Tensor> weights;
    if (class_weights_.defined()) weights = weights_on(batch.targets.device());
    return {at::cross_entropy_loss(logits, batch.targets, weights, at::Reduction::Mean,
                                   kIgnoredTarget, label_smoothing_),
            logits};
  }

  at::Tensor sampled_loss(Model& model, const Batch& batch,
                          const LabelDraws& draws) const override {
    const at::Tensor rows = logits_of(model, batch).movedim(1, -1).flatten(0, -2);
    const at::Tensor targets = batch.targets.flatten();
    const at::Tensor uniform = draws.uniform(targets.numel() / batch.size(), targets);
    return at::cross_entropy_loss(rows, sample_labels(rows, targets, uniform), {},
                                  at::Reduction::Mean, kIgnoredTarget);
  }
  std::string prevents_sampling() const override {
    return class_weights_.defined() ? "class_weights" : "";
  }

  std::vector<std::string> metrics() const override {
    return {"accuracy", "top_k", "f1", "matthews_correlation", "roc_auc"};
  }
  std::vector<std::string> default_metrics() const override { return {"accuracy"}; }

 private:
  static at::Tensor logits_of(Model& model, const Batch& batch) {
    at::Tensor logits = model.forward_batch(batch).to(at::kFloat);
    check_output(logits, batch);
    return logits;
  }

  /// Refuses token logits, for which PyTorch's error is unclear.
  static void check_output(const at::Tensor& logits, const Batch& batch) {
    if (logits.dim() == batch.targets.dim() + 1) return;
    throw Error(ExitCode::kRecipe,
                "the task 'classification' wants scores of classes for each target, but the "
                "model's output is " +
                    to_string(Shape(logits.sizes().begin(), logits.sizes().end())) +
                    " and the targets are " +
                    to_string(Shape(batch.targets.sizes().begin(), batch.targets.sizes().end())),
                "of texts, a model such as 'bert' scores classes");
  }

  /// A copy to a device is made once, for the passes of all steps.
  const at::Tensor& weights_on(at::Device device) {
    if (!placed_weights_.defined() || placed_weights_.device() != device) {
      placed_weights_ = class_weights_.to(device);
    }
    return placed_weights_;
  }

  double label_smoothing_;
  at::Tensor class_weights_;   ///< [classes] on the CPU; undefined: equal
  at::Tensor placed_weights_;  ///< the same on the device of the passes
};

const Register<Classification> classification;

}  // namespace
}  // namespace accel
