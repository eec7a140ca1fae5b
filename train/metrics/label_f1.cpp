// F1 of multi-label classification: micro, macro and per label, as scikit-learn's with
// zero_division 0.
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "train/metrics/predictions.h"

namespace accel {
namespace {

struct LabelF1Options {
  bool per_label = true;
};

class LabelF1 final : public Metric {
 public:
  static constexpr auto kName = "label_f1";
  static constexpr auto kSummary =
      "F1 of multi-label classification: over all labels, their mean, and of each.";

  static Schema<LabelF1Options> schema() {
    return Schema<LabelF1Options>().field("per_label", &LabelF1Options::per_label,
                                          "Whether each label's F1 is a value too.");
  }

  LabelF1(const LabelF1Options& options, const MetricContext& context) {
    const DataShape& data = context.data;
    if (data.target_type != DType::kF32 || data.target.size() != 1) {
      throw Error(ExitCode::kRecipe, "the metric 'label_f1' wants 0 or 1 for each label",
                  "the metric 'f1' takes class labels");
    }
    labels_ = static_cast<size_t>(data.target.front());
    sums_.resize(3 * labels_ + 2, 0.0);
    for (size_t i = 0; options.per_label && i < labels_; ++i) {
      names_.push_back(data.labels.size() == labels_ ? data.labels[i] : std::to_string(i));
      if (names_.back() == "micro" || names_.back() == "macro") refuse_label(names_.back());
    }
  }

  void update(const EvalStep& step) override {
    const at::Tensor chosen = step.output.gt(0), actual = step.batch.targets.gt(0.5);
    add(0, chosen.logical_and(actual));
    add(1, chosen);
    add(2, actual);
    sums_[3 * labels_] += total(chosen.eq(actual).all(1));
    sums_[3 * labels_ + 1] += static_cast<double>(chosen.size(0));
  }

  std::vector<double>& sums() override { return sums_; }

  std::vector<std::pair<std::string, double>> values() const override {
    double right = 0, counted = 0, mean = 0;
    std::vector<std::pair<std::string, double>> each;
    for (size_t i = 0; i < labels_; ++i) {
      const double both = sums_[i], all = sums_[labels_ + i] + sums_[2 * labels_ + i];
      right += both;
      counted += all;
      mean += f1(both, all) / static_cast<double>(labels_);
      if (i < names_.size()) each.emplace_back("f1_" + names_[i], f1(both, all));
    }
    std::vector<std::pair<std::string, double>> out = {{"f1_micro", f1(right, counted)},
                                                       {"f1_macro", mean}};
    const double samples = sums_[3 * labels_ + 1];
    out.emplace_back("subset_accuracy", samples > 0 ? sums_[3 * labels_] / samples : 0.0);
    out.insert(out.end(), each.begin(), each.end());
    return out;
  }
  bool higher_is_better() const override { return true; }

 private:
  [[noreturn]] static void refuse_label(const std::string& label) {
    throw Error(ExitCode::kRecipe,
                text("the metric 'label_f1' has 'f1_{}' over all labels, and the data has a label "
                     "'{}', whose F1 would have the same name",
                     label, label),
                "give the label another name, or set 'per_label: false'");
  }

  static double f1(double right, double counted) { return counted > 0 ? 2 * right / counted : 0; }

  /// Adds the count of each column of booleans.
  void add(size_t kind, const at::Tensor& flags) {
    const at::Tensor counts = flags.sum(0).to(at::kDouble).cpu();
    for (size_t i = 0; i < labels_; ++i) {
      sums_[kind * labels_ + i] += counts[static_cast<int64_t>(i)].item<double>();
    }
  }

  size_t labels_ = 0;
  std::vector<std::string> names_;  ///< of the labels with a value
  std::vector<double> sums_;        ///< right, chosen, actual per label; equal samples, samples
};

const Register<LabelF1> label_f1;

}  // namespace
}  // namespace accel
