// Mean absolute and mean squared error.
#include "core/recipe/registry.h"
#include "train/metrics/predictions.h"

namespace accel {
namespace {

struct ErrorMetricOptions {};

/// In double, for accurate sums over long evaluations.
at::Tensor difference(const EvalStep& step) {
  const at::Tensor targets = step.batch.targets.to(at::kDouble);
  return step.output.to(at::kDouble).reshape_as(targets).sub(targets);
}

/// The mean of an error over all numbers.
class MeanError : public Metric {
 public:
  static Schema<ErrorMetricOptions> schema() { return {}; }

  void update(const EvalStep& step) override {
    sums_[0] += total(error(difference(step)));
    sums_[1] += static_cast<double>(step.batch.targets.numel());
  }

  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override {
    return {{name(), sums_[0] / sums_[1]}};
  }
  bool higher_is_better() const override { return false; }

 private:
  virtual at::Tensor error(const at::Tensor& difference) const = 0;
  virtual const char* name() const = 0;

  std::vector<double> sums_ = {0, 0};  ///< sum of errors, count
};

class MeanAbsoluteError final : public MeanError {
 public:
  static constexpr auto kName = "mae";
  static constexpr const char* kHintFor[] = {"l1", "mean_absolute_error"};
  static constexpr auto kSummary = "Mean absolute error.";

  explicit MeanAbsoluteError(const ErrorMetricOptions&) {}

 private:
  at::Tensor error(const at::Tensor& difference) const override { return difference.abs(); }
  const char* name() const override { return kName; }
};

class MeanSquaredError final : public MeanError {
 public:
  static constexpr auto kName = "mse";
  static constexpr const char* kHintFor[] = {"l2", "mean_squared_error"};
  static constexpr auto kSummary = "Mean squared error.";

  explicit MeanSquaredError(const ErrorMetricOptions&) {}

 private:
  at::Tensor error(const at::Tensor& difference) const override { return difference.square(); }
  const char* name() const override { return kName; }
};

const Register<MeanAbsoluteError> mae;
const Register<MeanSquaredError> mse;

}  // namespace
}  // namespace accel
