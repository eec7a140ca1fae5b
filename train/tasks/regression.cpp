// Regression: squared, absolute or Huber error.
#include <ATen/ops/huber_loss.h>
#include <ATen/ops/l1_loss.h>
#include <ATen/ops/mse_loss.h>

#include <string>

#include "core/api/model.h"
#include "core/api/task.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "train/tasks/divided_sequences.h"

namespace accel {
namespace {
enum class RegressionLoss { kMse, kMae, kHuber };
}  // namespace

template <>
struct EnumNames<RegressionLoss> {
  static constexpr std::pair<RegressionLoss, const char*> kValues[] = {
      {RegressionLoss::kMse, "mse"},
      {RegressionLoss::kMae, "mae"},
      {RegressionLoss::kHuber, "huber"}};
};

namespace {

struct RegressionOptions {
  RegressionLoss loss = RegressionLoss::kMse;
  double delta = 1.0;
  double target_mean = 0.0;
  double target_std = 1.0;
};

/// The output in the shape of the targets: [batch, 1] becomes [batch]. Broadcasting other shapes
/// would give a wrong loss.
at::Tensor shaped_like(const at::Tensor& output, const at::Tensor& targets) {
  if (output.numel() != targets.numel() || output.size(0) != targets.size(0)) {
    throw Error(ExitCode::kRecipe, text("the model's output is {}, but the targets are {}",
                                        shape_text(output), shape_text(targets)));
  }
  return output.reshape_as(targets);
}

class Regression final : public Task, public DividedSequences {
 public:
  static constexpr auto kName = "regression";
  static constexpr auto kSummary = "Regression of one or more numbers per sample.";

  static Schema<RegressionOptions> schema() {
    return Schema<RegressionOptions>()
        .field("loss", &RegressionOptions::loss,
               "Squared error, absolute error, or huber: squared for small errors, absolute for "
               "large ones, and so robust to outliers.")
        .field("delta", &RegressionOptions::delta,
               "Error at which huber changes from squared to absolute, in units of target_std.",
               more_than(0.0))
        .field("target_mean", &RegressionOptions::target_mean,
               "Mean of the targets. The model learns (target - target_mean) / target_std, and the "
               "loss is in these units; metrics and 'predict' are in the units of the data. Set "
               "both when the targets are far from 0 or much larger than 1, such as prices, which "
               "small learning rates do not reach. An exported model's output is standardized.")
        .field("target_std", &RegressionOptions::target_std, "Standard deviation of the targets.",
               more_than(0.0));
  }

  Regression(const RegressionOptions& options, const TaskContext& context) : options_(options) {
    const DataShape& data = context.data;
    if (!data.input.empty() && data.target_type != DType::kF32) {
      throw Error(ExitCode::kRecipe,
                  std::string("the task 'regression' wants F32 numbers, but the targets of the "
                              "data are ") +
                      name_of(data.target_type) + " " + to_string(data.target),
                  "the task 'classification' takes class labels");
    }
  }

  double weight(const Batch& batch) const override {
    return static_cast<double>(batch.targets.size(0));
  }

  at::Tensor loss(Model& model, const Batch& batch) override {
    return equal_part(model, evaluate(model, batch).loss);
  }

  Evaluation evaluate(Model& model, const Batch& batch) override {
    const DividedEvaluation divided(context_ranks(model));
    const at::Tensor output = shaped_like(model.forward_batch(batch).to(at::kFloat), batch.targets);
    if (!is_standardized()) return {distance(output, batch.targets), output};
    return {distance(output, batch.targets.sub(options_.target_mean).div(options_.target_std)),
            output.mul(options_.target_std).add(options_.target_mean)};
  }

  std::vector<std::string> metrics() const override {
    return {"mae", "mse", "r2", "pearson", "spearman"};
  }
  std::vector<std::string> default_metrics() const override { return {"mae"}; }

 private:
  bool is_standardized() const { return options_.target_mean != 0.0 || options_.target_std != 1.0; }

  at::Tensor distance(const at::Tensor& output, const at::Tensor& targets) const {
    switch (options_.loss) {
      case RegressionLoss::kMae:
        return at::l1_loss(output, targets);
      case RegressionLoss::kHuber:
        return at::huber_loss(output, targets, at::Reduction::Mean, options_.delta);
      default:
        return at::mse_loss(output, targets);
    }
  }

  RegressionOptions options_;
};

const Register<Regression> regression;

}  // namespace
}  // namespace accel
