// The F1 score, the harmonic mean of precision and recall.
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "train/metrics/label_counts.h"

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

/// Zero without a correct prediction; only called for counts that are met.
double f1_of(const LabelCounts::Counts& counts) {
  return 2 * counts.right / (counts.chosen + counts.actual);
}

bool is_met(const LabelCounts::Counts& counts) {
  return counts.chosen + counts.actual > 0;
}

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
      : average_(options.average), counts_(class_count(kName, context.data)) {
    if (average_ == F1Average::kBinary && counts_.classes() != 2) {
      throw Error(ExitCode::kRecipe,
                  text("'average: binary' of the metric 'f1' needs 2 classes, but the data has {}",
                       counts_.classes()),
                  "use 'macro' or 'micro'");
    }
  }

  void update(const EvalStep& step) override { counts_.add(step); }
  std::vector<double>& sums() override { return counts_.sums(); }
  std::vector<std::pair<std::string, double>> values() const override { return {{kName, score()}}; }
  bool higher_is_better() const override { return true; }

 private:
  double score() const {
    if (average_ == F1Average::kBinary) return is_met(counts_.of(1)) ? f1_of(counts_.of(1)) : 0;
    LabelCounts::Counts all;
    double scores = 0, met = 0;
    for (int64_t label = 0; label < counts_.classes(); ++label) {
      const LabelCounts::Counts one = counts_.of(label);
      if (!is_met(one)) continue;
      all = {all.right + one.right, all.chosen + one.chosen, all.actual + one.actual};
      scores += f1_of(one);
      ++met;
    }
    return average_ == F1Average::kMicro ? f1_of(all) : scores / met;
  }

  F1Average average_;
  LabelCounts counts_;
};

const Register<F1> f1;

}  // namespace
}  // namespace accel
