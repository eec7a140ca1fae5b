// Exact match: the share of sequences predicted without error.
#include "core/recipe/registry.h"
#include "train/metrics/predictions.h"

namespace accel {
namespace {

struct ExactMatchOptions {};

class ExactMatch final : public Metric {
 public:
  static constexpr auto kName = "exact_match";
  static constexpr auto kSummary = "Share of samples with all unmasked tokens predicted correctly.";

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
  std::vector<double> sums_ = {0, 0};  ///< exact matches, samples with an unmasked token
};

const Register<ExactMatch> exact_match;

}  // namespace
}  // namespace accel
