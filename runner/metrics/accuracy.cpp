// The share of right answers.
#include "core/registry.h"
#include "runner/metrics/predictions.h"

namespace accel {
namespace {

struct AccuracyOptions {};

class Accuracy final : public Metric {
 public:
  static constexpr auto kName = "accuracy";
  static constexpr auto kSummary = "Share of labels or tokens that the model's first choice meets.";

  static Schema<AccuracyOptions> schema() { return {}; }

  explicit Accuracy(const AccuracyOptions&) {}

  void update(const EvalStep& step) override {
    const at::Tensor& targets = step.batch.targets;
    sums_[0] += total(chosen(step).eq(targets));
    sums_[1] += total(targets.ne(kIgnoredTarget));
  }

  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override {
    return {{kName, sums_[0] / sums_[1]}};
  }
  bool higher_is_better() const override { return true; }

 private:
  std::vector<double> sums_ = {0, 0};  ///< right, counted
};

const Register<Accuracy> accuracy;

}  // namespace
}  // namespace accel
