// The share of sequences without a single wrong token.
#include "core/registry.h"
#include "runner/metrics/predictions.h"

namespace accel {
namespace {

struct ExactMatchOptions {};

class ExactMatch final : public Metric {
 public:
  static constexpr auto kName = "exact_match";
  static constexpr auto kSummary = "Share of samples whose every counted token is right.";

  static Schema<ExactMatchOptions> schema() { return {}; }

  explicit ExactMatch(const ExactMatchOptions&) {}

  void update(const EvalStep& step) override {
    const at::Tensor targets = step.batch.targets.reshape({step.batch.targets.size(0), -1});
    const at::Tensor counted = targets.ne(kIgnoredTarget);
    const at::Tensor right = chosen(step).view_as(targets).eq(targets);
    const at::Tensor judged = counted.any(1);
    sums_[0] += total(right.logical_or(counted.logical_not()).all(1).logical_and(judged));
    sums_[1] += total(judged);
  }

  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override {
    return {{kName, sums_[0] / sums_[1]}};
  }
  bool higher_is_better() const override { return true; }

 private:
  std::vector<double> sums_ = {0, 0};  ///< all right, samples with a counted token
};

const Register<ExactMatch> exact_match;

}  // namespace
}  // namespace accel
