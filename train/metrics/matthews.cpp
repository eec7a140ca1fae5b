// The Matthews correlation coefficient, for any number of classes (Gorodkin, 2004).
#include <cmath>

#include "core/recipe/registry.h"
#include "train/metrics/label_counts.h"

namespace accel {
namespace {

struct MatthewsOptions {};

class MatthewsCorrelation final : public Metric {
 public:
  static constexpr auto kName = "matthews_correlation";
  static constexpr const char* kHintFor[] = {"mcc", "matthews", "matthews_corrcoef"};
  static constexpr auto kSummary =
      "Correlation of predicted and actual classes, 0 for chance, also where they are unequally "
      "frequent.";

  static Schema<MatthewsOptions> schema() { return {}; }
  MatthewsCorrelation(const MatthewsOptions&, const MetricContext& context)
      : counts_(class_count(kName, context.data)) {}

  void update(const EvalStep& step) override { counts_.add(step); }
  std::vector<double>& sums() override { return counts_.sums(); }
  std::vector<std::pair<std::string, double>> values() const override { return {{kName, value()}}; }
  bool higher_is_better() const override { return true; }

 private:
  /// 0 where all samples are of one class or predicted as one, as in scikit-learn.
  double value() const {
    double right = 0, all = 0, both = 0, chosen = 0, actual = 0;
    for (int64_t label = 0; label < counts_.classes(); ++label) {
      const LabelCounts::Counts one = counts_.of(label);
      right += one.right;
      all += one.actual;
      both += one.chosen * one.actual;
      chosen += one.chosen * one.chosen;
      actual += one.actual * one.actual;
    }
    const double spread = (all * all - chosen) * (all * all - actual);
    return spread > 0 ? (right * all - both) / std::sqrt(spread) : 0;
  }

  LabelCounts counts_;
};

const Register<MatthewsCorrelation> matthews;

}  // namespace
}  // namespace accel
