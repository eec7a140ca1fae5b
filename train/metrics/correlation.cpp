// Correlations of predicted and actual numbers, as scipy's pearsonr and spearmanr.
#include "core/api/data_shape.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/registry.h"
#include "train/metrics/sample_metric.h"

namespace accel {
namespace {

struct CorrelationOptions {};

/// NaN where all numbers of one side are equal.
double pearson_of(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor from_a = a.sub(a.mean()), from_b = b.sub(b.mean());
  const at::Tensor both = from_a.mul(from_b).sum();
  return both.div(from_a.square().sum().sqrt())
      .div(from_b.square().sum().sqrt())
      .clamp(-1, 1)
      .item<double>();
}

class CorrelationMetric : public SampleMetric {
 public:
  static Schema<CorrelationOptions> schema() { return {}; }

 protected:
  /// Throws Error (kRecipe) for several numbers per sample.
  static void want_one_number(const char* metric, const DataShape& data) {
    int64_t numbers = 1;
    for (const int64_t size : data.target) numbers *= size;
    if (numbers == 1) return;
    throw Error(
        ExitCode::kRecipe,
        text("the metric '{}' needs one number per sample, but the data has {}", metric, numbers),
        "use 'r2', which is a mean over the numbers");
  }

 private:
  at::Tensor rows_of(const EvalStep& step) const override { return number_rows(step); }
};

class Pearson final : public CorrelationMetric {
 public:
  static constexpr auto kName = "pearson";
  static constexpr const char* kHintFor[] = {"pearsonr"};
  static constexpr auto kSummary = "Pearson correlation of predicted and actual numbers.";

  Pearson(const CorrelationOptions&, const MetricContext& context) {
    want_one_number(kName, context.data);
  }

 private:
  double value_of(const at::Tensor& rows) const override {
    return pearson_of(rows.select(1, 0).flatten(), rows.select(1, 1).flatten());
  }
  const char* name() const override { return kName; }
};

class Spearman final : public CorrelationMetric {
 public:
  static constexpr auto kName = "spearman";
  static constexpr const char* kHintFor[] = {"spearmanr"};
  static constexpr auto kSummary =
      "Rank correlation of predicted and actual numbers; equal numbers have their mean rank.";

  Spearman(const CorrelationOptions&, const MetricContext& context) {
    want_one_number(kName, context.data);
  }

 private:
  double value_of(const at::Tensor& rows) const override {
    return pearson_of(average_ranks(rows.select(1, 0).flatten()),
                      average_ranks(rows.select(1, 1).flatten()));
  }
  const char* name() const override { return kName; }
};

const Register<Pearson> pearson;
const Register<Spearman> spearman;

}  // namespace
}  // namespace accel
