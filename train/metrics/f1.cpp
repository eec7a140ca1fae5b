// The F1 score, the harmonic mean of precision and recall.
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "train/metrics/predictions.h"

namespace accel {
namespace {
enum class F1Average { kMacro, kMicro, kBinary };
}  // namespace

template <>
struct EnumNames<F1Average> {
  static constexpr std::pair<F1Average, const char*> kValues[] = {
      {F1Average::kMacro, "macro"}, {F1Average::kMicro, "micro"}, {F1Average::kBinary, "binary"}};
};

namespace {

struct F1Options {
  F1Average average = F1Average::kMacro;
};

/// Counts of one class, or summed over several.
struct F1Counts {
  double right = 0;
  double chosen = 0;
  double actual = 0;

  /// Zero without a correct prediction; only called for a class that occurs.
  double score() const { return 2 * right / (chosen + actual); }
  bool met() const { return chosen + actual > 0; }
};

class F1 final : public Metric {
 public:
  static constexpr auto kName = "f1";
  static constexpr const char* kHintFor[] = {"f1_score"};
  static constexpr auto kSummary = "Harmonic mean of precision and recall.";

  static Schema<F1Options> schema() {
    return Schema<F1Options>().field(
        "average", &F1Options::average,
        "macro: mean over the classes that occur; micro: over all samples; binary: of class 1.");
  }

  F1(const F1Options& options, const MetricContext& context)
      : average_(options.average),
        classes_(class_count(kName, context.data)),
        sums_(static_cast<size_t>(3 * classes_), 0) {
    if (average_ == F1Average::kBinary && classes_ != 2) {
      throw Error(ExitCode::kRecipe,
                  text("'average: binary' of the metric 'f1' needs 2 classes, but the data has {}",
                       classes_),
                  "use 'macro' or 'micro'");
    }
  }

  void update(const EvalStep& step) override {
    const at::Tensor counted = step.batch.targets.ne(kIgnoredTarget);
    const at::Tensor actual = step.batch.targets.masked_select(counted);
    const at::Tensor choice = chosen(step).masked_select(counted);
    add(0, choice.masked_select(choice.eq(actual)));
    add(1, choice);
    add(2, actual);
  }

  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override { return {{kName, score()}}; }
  bool higher_is_better() const override { return true; }

 private:
  /// Counts each class of `labels` into one of the three rows of sums_.
  void add(int64_t row, const at::Tensor& labels) {
    const at::Tensor counts = labels.bincount({}, classes_).cpu();
    const int64_t* count = counts.const_data_ptr<int64_t>();
    for (int64_t i = 0; i < classes_; ++i) {
      sums_[static_cast<size_t>(row * classes_ + i)] += static_cast<double>(count[i]);
    }
  }

  F1Counts counts(int64_t label) const {
    const auto at = [&](int64_t row) { return sums_[static_cast<size_t>(row * classes_ + label)]; };
    return {at(0), at(1), at(2)};
  }

  double score() const {
    if (average_ == F1Average::kBinary) return counts(1).met() ? counts(1).score() : 0;
    F1Counts all;
    double scores = 0, met = 0;
    for (int64_t label = 0; label < classes_; ++label) {
      const F1Counts one = counts(label);
      if (!one.met()) continue;
      all = {all.right + one.right, all.chosen + one.chosen, all.actual + one.actual};
      scores += one.score();
      ++met;
    }
    return average_ == F1Average::kMicro ? all.score() : scores / met;
  }

  F1Average average_;
  int64_t classes_;
  std::vector<double> sums_;  ///< correct, predicted, actual; each by class
};

const Register<F1> f1;

}  // namespace
}  // namespace accel
