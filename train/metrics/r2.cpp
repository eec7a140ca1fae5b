// The coefficient of determination, as scikit-learn's r2_score.
#include <ATen/ops/where.h>

#include "core/recipe/registry.h"
#include "train/metrics/sample_metric.h"

namespace accel {
namespace {

struct R2Options {};

class R2 final : public SampleMetric {
 public:
  static constexpr auto kName = "r2";
  static constexpr const char* kHintFor[] = {"r2_score", "r_squared"};
  static constexpr auto kSummary =
      "Share of the targets' variance that predictions explain (R²); of several numbers per sample "
      "the mean.";

  static Schema<R2Options> schema() { return {}; }
  R2(const R2Options&, const MetricContext&) {}

 private:
  at::Tensor rows_of(const EvalStep& step) const override { return number_rows(step); }

  /// Without variance 1 for exact predictions, else 0.
  double value_of(const at::Tensor& rows) const override {
    const at::Tensor actual = rows.select(1, 1);
    const at::Tensor rest = rows.select(1, 0).sub(actual).square().sum(0);
    const at::Tensor all = actual.sub(actual.mean(0)).square().sum(0);
    const at::Tensor share = rest.div(all).neg().add(1);
    return at::where(all.gt(0), share, rest.eq(0).to(at::kDouble)).mean().item<double>();
  }
  const char* name() const override { return kName; }
};

const Register<R2> r2;

}  // namespace
}  // namespace accel
