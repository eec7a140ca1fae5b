// A metric: of what share of the samples the model is sure, and how often it is right then.
//
// All that a metric knows is a vector of sums: ranks add theirs up, and writing zeros starts over.
#include <string>
#include <utility>
#include <vector>

#include "core/api/metric.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct SureShareOptions {
  double chance = 0.9;
};

class SureShare final : public Metric {
 public:
  static constexpr auto kName = "example/sure_share";
  static constexpr auto kSummary = "How often the model is sure, and how often right when it is.";

  static Schema<SureShareOptions> schema() {
    return Schema<SureShareOptions>().field("chance", &SureShareOptions::chance,
                                            "From which chance on the model counts as sure.",
                                            within(0.0, 1.0));
  }

  explicit SureShare(const SureShareOptions& options) : chance_(options.chance) {}

  void update(const EvalStep& step) override {
    const auto [chances, choices] = step.output.softmax(1).max(1);
    const at::Tensor sure = chances.ge(chance_);
    const at::Tensor right = sure.logical_and(choices.eq(step.batch.targets));
    sums_[0] += sure.sum().item().toDouble();
    sums_[1] += right.sum().item().toDouble();
    sums_[2] += static_cast<double>(step.batch.size());
  }

  std::vector<double>& sums() override { return sums_; }

  std::vector<std::pair<std::string, double>> values() const override {
    return {{"sure_share", sums_[0] / sums_[2]},
            {"right_when_sure", sums_[0] > 0 ? sums_[1] / sums_[0] : 0}};
  }

  bool higher_is_better() const override { return true; }

 private:
  double chance_;
  std::vector<double> sums_ = {0, 0, 0};  ///< sure, right and sure, all
};

const Register<SureShare> sure_share;

}  // namespace
}  // namespace accel
