// Accuracy: the share of correct predictions.
#include "core/recipe/registry.h"
#include "train/metrics/predictions.h"

namespace accel {
namespace {

struct AccuracyOptions {};

class Accuracy final : public Metric {
 public:
  static constexpr auto kName = "accuracy";
  static constexpr const char* kHintFor[] = {"acc", "accuracy_score"};
  static constexpr auto kSummary = "Share of labels or tokens predicted correctly.";

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
  std::vector<double> sums_ = {0, 0};  ///< correct, total
};

const Register<Accuracy> accuracy;

}  // namespace
}  // namespace accel
