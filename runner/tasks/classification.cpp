// Telling classes apart: cross-entropy on one label per sample.
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/tensor.h>

#include <optional>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/model.h"
#include "core/registry.h"
#include "core/targets.h"
#include "core/task.h"

namespace accel {
namespace {

struct ClassificationOptions {
  double label_smoothing = 0.0;
  std::vector<double> class_weights;
};

class Classification final : public Task {
 public:
  static constexpr auto kName = "classification";
  static constexpr auto kSummary = "Cross-entropy on one label per sample.";

  static Schema<ClassificationOptions> schema() {
    return Schema<ClassificationOptions>()
        .field("label_smoothing", &ClassificationOptions::label_smoothing,
               "Share of the target that is spread over all classes.", within(0.0, 1.0))
        .field("class_weights", &ClassificationOptions::class_weights,
               "How much a sample of each class counts; empty: all the same.",
               each(more_than(0.0)));
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
      throw Error(ExitCode::kRecipe, "'class_weights' has " + std::to_string(weights) +
                                         " numbers, but the data has " +
                                         std::to_string(data.classes) + " classes");
    }
    class_weights_ = at::tensor(options.class_weights, at::kFloat);
  }

  double weight(const Batch& batch) const override {
    if (!class_weights_.defined()) return static_cast<double>(batch.targets.numel());
    return weights_on(batch.targets).index_select(0, batch.targets).sum().item<double>();
  }

  at::Tensor loss(Model& model, const Batch& batch) override { return evaluate(model, batch).loss; }

  Evaluation evaluate(Model& model, const Batch& batch) override {
    const at::Tensor logits = model.forward_batch(batch).to(at::kFloat);
    check_output(logits, batch);
    std::optional<at::Tensor> weights;
    if (class_weights_.defined()) weights = weights_on(batch.targets);
    return {at::cross_entropy_loss(logits, batch.targets, weights, at::Reduction::Mean,
                                   kIgnoredTarget, label_smoothing_),
            logits};
  }

  std::vector<std::string> metrics() const override { return {"accuracy", "top_k", "f1"}; }
  std::vector<std::string> default_metrics() const override { return {"accuracy"}; }

 private:
  /// A model that scores every token would be met by PyTorch with a riddle.
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

  at::Tensor weights_on(const at::Tensor& targets) const {
    return class_weights_.to(targets.device());
  }

  double label_smoothing_;
  at::Tensor class_weights_;  ///< [classes], undefined: all the same
};

const Register<Classification> classification;

}  // namespace
}  // namespace accel
