// The area under the ROC curve, as scikit-learn's roc_auc_score.
#include <ATen/ops/cat.h>
#include <ATen/ops/softmax.h>

#include <cmath>
#include <limits>

#include "core/recipe/registry.h"
#include "train/metrics/predictions.h"
#include "train/metrics/sample_metric.h"

namespace accel {
namespace {

struct RocAucOptions {};

/// The share of pairs of a positive and a negative sample in which the positive one has the higher
/// score; pairs of equal scores count half. NaN without such pairs, and for scores that are NaN.
double area_of(const at::Tensor& scores, const at::Tensor& positive) {
  const double positives = positive.sum().item<double>();
  const double negatives = static_cast<double>(positive.size(0)) - positives;
  const double ranks = average_ranks(scores.contiguous()).mul(positive).sum().item<double>();
  return (ranks - positives * (positives + 1) / 2) / (positives * negatives);
}

class RocAuc final : public SampleMetric {
 public:
  static constexpr auto kName = "roc_auc";
  static constexpr const char* kHintFor[] = {"auc", "auroc", "roc_auc_score"};
  static constexpr auto kSummary =
      "Area under the ROC curve: of class 1 of two; of more classes each against the rest, and of "
      "several labels each, the mean over those with samples of both kinds.";

  static Schema<RocAucOptions> schema() { return {}; }
  RocAuc(const RocAucOptions&, const MetricContext& context)
      : classes_(has_labels(context.data) ? context.data.target.front()
                                          : class_count(kName, context.data)),
        labels_(has_labels(context.data)) {}

 private:
  static bool has_labels(const DataShape& data) {
    return data.target_type == DType::kF32 && data.target.size() == 1;
  }

  /// Scores of each class, of class 1 only where there are two, and the class; or of each label,
  /// and the labels.
  at::Tensor rows_of(const EvalStep& step) const override {
    const at::Tensor logits = step.output.to(at::kDouble);
    if (labels_) return at::cat({logits, step.batch.targets.gt(0.5).to(at::kDouble)}, 1);
    // Equal probabilities of unequal logits are no ties: the difference does not round to 0 or 1.
    const at::Tensor scores = is_binary()
                                  ? logits.select(1, 1).sub(logits.select(1, 0)).unsqueeze(1)
                                  : at::softmax(logits, 1);
    const at::Tensor rows = at::cat({scores, step.batch.targets.to(at::kDouble).unsqueeze(1)}, 1);
    return rows.index_select(0, step.batch.targets.ne(kIgnoredTarget).nonzero().squeeze(1));
  }

  double value_of(const at::Tensor& rows) const override {
    if (is_binary()) return area_of(rows.select(1, 0), rows.select(1, 1).eq(1));
    double sum = 0, counted = 0;
    for (int64_t i = 0; i < classes_; ++i) {
      const at::Tensor positive =
          labels_ ? rows.select(1, classes_ + i).eq(1) : rows.select(1, classes_).eq(i);
      const double area = area_of(rows.select(1, i), positive);
      if (std::isnan(area)) continue;
      sum += area;
      ++counted;
    }
    return counted > 0 ? sum / counted : std::numeric_limits<double>::quiet_NaN();
  }
  const char* name() const override { return kName; }
  bool is_binary() const { return !labels_ && classes_ == 2; }

  int64_t classes_;
  bool labels_;  ///< several labels per sample
};

const Register<RocAuc> roc_auc;

}  // namespace
}  // namespace accel
