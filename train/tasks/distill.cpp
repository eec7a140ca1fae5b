// Knowledge distillation (Hinton, Vinyals and Dean, 2015): a student learns from the labels and a
// trained teacher's logits.
#include <ATen/core/grad_mode.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/kl_div.h>
#include <ATen/ops/log_softmax.h>

#include <memory>
#include <string>
#include <vector>

#include "core/api/model.h"
#include "core/api/targets.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/recipe/registry.h"
#include "train/tasks/frozen_model.h"

namespace accel {
namespace {

struct DistillOptions {
  Ref<Model> teacher;
  double temperature = 2.0;
  double alpha = 0.5;
};

class Distill final : public Task {
 public:
  static constexpr auto kName = "distill";
  static constexpr const char* kHintFor[] = {"distillation"};
  static constexpr auto kSummary =
      "Cross-entropy on labels, plus divergence from a teacher's logits.";

  static Schema<DistillOptions> schema() {
    return Schema<DistillOptions>()
        .field("teacher", &DistillOptions::teacher,
               "A trained model, such as one of type `pretrained`; its weights are frozen.")
        .required()
        .field("temperature", &DistillOptions::temperature,
               "Divisor of both models' logits before they are compared. Higher values expose more "
               "of the teacher's probabilities of other classes.",
               more_than(0.0))
        .field("alpha", &DistillOptions::alpha,
               "Weight of the teacher's term in the loss; the rest is the labels'.",
               between(0.0, 1.0))
        .check([](const DistillOptions& options, const Node& node, Reading& reading) {
          want_trained_weights(options.teacher, "teacher", node, reading);
        });
  }

  Distill(const DistillOptions& options, const TaskContext& context)
      : temperature_(options.temperature), alpha_(options.alpha) {
    if (context.data.target_type != DType::kI64) {
      throw Error(ExitCode::kRecipe,
                  std::string("the task 'distill' wants I64 class labels, but the targets of the "
                              "data are ") +
                      name_of(context.data.target_type) + " " + to_string(context.data.target));
    }
    teacher_ = options.teacher.make({context.data});
  }

  double weight(const Batch& batch) const override {
    return static_cast<double>(batch.targets.numel());
  }

  at::Tensor loss(Model& model, const Batch& batch) override {
    const at::Tensor student = scores(model, batch);
    const at::Tensor labels = label_loss(student, batch);
    at::Tensor teacher;
    {
      const at::NoGradGuard no_grad;
      teacher = scores(*teacher_, batch);
    }
    if (teacher.sizes() != student.sizes()) {
      std::string message = "the student's scores are ";
      message.append(shape_of(student))
          .append(", but the teacher's are ")
          .append(shape_of(teacher));
      throw Error(ExitCode::kRecipe, message);
    }
    // Gradients of the softened logits scale with 1 / temperature^2.
    const at::Tensor likeness =
        at::kl_div(softened(student), softened(teacher), at::Reduction::Sum, true)
            .mul(temperature_ * temperature_ / static_cast<double>(batch.targets.numel()));
    return labels.mul(1 - alpha_).add(likeness.mul(alpha_));
  }

  /// Evaluates on labels alone, comparable with a run without a teacher.
  Evaluation evaluate(Model& model, const Batch& batch) override {
    const at::Tensor student = scores(model, batch);
    return {label_loss(student, batch), student};
  }

  std::vector<std::string> metrics() const override {
    return {"accuracy", "top_k", "f1", "matthews_correlation", "roc_auc"};
  }
  std::vector<std::string> default_metrics() const override { return {"accuracy"}; }

  std::vector<TaskModel> models() override {
    return {{.name = "teacher", .model = teacher_.get(), .in_checkpoints = false}};
  }

 private:
  static std::string shape_of(const at::Tensor& tensor) {
    return to_string(Shape(tensor.sizes().begin(), tensor.sizes().end()));
  }
  /// [samples, classes].
  static at::Tensor scores(Model& model, const Batch& batch) {
    const at::Tensor out = model.forward_batch(batch).to(at::kFloat);
    if (out.dim() == 2 && out.size(0) == batch.targets.size(0)) return out;
    std::string message =
        "the task 'distill' wants scores of classes for each sample, but a model's output is ";
    message.append(shape_of(out)).append(" for ").append(std::to_string(batch.targets.size(0)));
    throw Error(ExitCode::kRecipe, message.append(" samples"));
  }
  at::Tensor label_loss(const at::Tensor& student, const Batch& batch) const {
    return at::cross_entropy_loss(student, batch.targets, {}, at::Reduction::Mean, kIgnoredTarget);
  }
  at::Tensor softened(const at::Tensor& scores) const {
    return at::log_softmax(scores.div(temperature_), 1);
  }

  std::unique_ptr<Model> teacher_;
  double temperature_, alpha_;
};

const Register<Distill> distill;

}  // namespace
}  // namespace accel
