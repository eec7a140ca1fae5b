// Overlap of predicted and actual spans of tokens.
#include <algorithm>

#include "core/recipe/registry.h"
#include "train/metrics/predictions.h"

namespace accel {
namespace {

struct SpanF1Options {};

class SpanF1 final : public Metric {
 public:
  static constexpr auto kName = "span_f1";
  static constexpr auto kSummary =
      "Mean over samples of the F1 of a predicted span's tokens against the actual ones.";

  static Schema<SpanF1Options> schema() { return {}; }

  explicit SpanF1(const SpanF1Options&) {}

  void update(const EvalStep& step) override {
    const at::Tensor found = chosen(step).view({-1, 2}).cpu();
    const at::Tensor there = step.batch.targets.view({-1, 2}).cpu();
    for (int64_t row = 0; row < there.size(0); ++row) {
      const auto at = [row](const at::Tensor& spans, int64_t side) {
        return spans[row][side].item<int64_t>();
      };
      const int64_t common =
          std::min(at(found, 1), at(there, 1)) - std::max(at(found, 0), at(there, 0)) + 1;
      const int64_t both = at(found, 1) - at(found, 0) + at(there, 1) - at(there, 0) + 2;
      sums_[0] +=
          2.0 * static_cast<double>(std::max<int64_t>(common, 0)) / static_cast<double>(both);
      sums_[1] += 1;
    }
  }

  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override {
    return {{kName, sums_[0] / sums_[1]}};
  }
  bool higher_is_better() const override { return true; }

 private:
  std::vector<double> sums_ = {0, 0};  ///< F1, samples
};

const Register<SpanF1> span_f1;

}  // namespace
}  // namespace accel
