// How far predicted numbers are from the true ones: mean absolute and mean squared error.
#include "core/registry.h"
#include "runner/metrics/predictions.h"

namespace accel {
namespace {

struct ErrorMetricOptions {};

/// In double, so that an evaluation of any length adds up exactly enough.
at::Tensor difference(const EvalStep& step) {
  const at::Tensor targets = step.batch.targets.to(at::kDouble);
  return step.output.to(at::kDouble).reshape_as(targets).sub(targets);
}

class MeanAbsoluteError final : public Metric {
 public:
  static constexpr auto kName = "mae";
  static constexpr auto kSummary = "Mean absolute error.";

  static Schema<ErrorMetricOptions> schema() { return {}; }

  explicit MeanAbsoluteError(const ErrorMetricOptions&) {}

  void update(const EvalStep& step) override {
    sums_[0] += total(difference(step).abs());
    sums_[1] += static_cast<double>(step.batch.targets.numel());
  }

  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override {
    return {{kName, sums_[0] / sums_[1]}};
  }
  bool higher_is_better() const override { return false; }

 private:
  std::vector<double> sums_ = {0, 0};  ///< absolute errors, numbers
};

class MeanSquaredError final : public Metric {
 public:
  static constexpr auto kName = "mse";
  static constexpr auto kSummary = "Mean squared error.";

  static Schema<ErrorMetricOptions> schema() { return {}; }

  explicit MeanSquaredError(const ErrorMetricOptions&) {}

  void update(const EvalStep& step) override {
    sums_[0] += total(difference(step).square());
    sums_[1] += static_cast<double>(step.batch.targets.numel());
  }

  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override {
    return {{kName, sums_[0] / sums_[1]}};
  }
  bool higher_is_better() const override { return false; }

 private:
  std::vector<double> sums_ = {0, 0};  ///< squared errors, numbers
};

const Register<MeanAbsoluteError> mae;
const Register<MeanSquaredError> mse;

}  // namespace
}  // namespace accel
