// Mean reward of sampled completions.
#include <string>
#include <utility>
#include <vector>

#include "core/api/metric.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct RewardMetricOptions {};

/// The first column of the task's output, [prompts, columns], without NaN.
class MeanReward final : public Metric {
 public:
  static constexpr auto kName = "reward";
  static constexpr auto kSummary = "Mean reward of the completions that the task 'grpo' samples.";

  static Schema<RewardMetricOptions> schema() { return {}; }

  explicit MeanReward(const RewardMetricOptions&) {}

  void update(const EvalStep& step) override {
    const at::Tensor rewards = step.output.select(1, 0).to(at::kDouble);
    sums_[0] += rewards.nansum().item<double>();
    sums_[1] += rewards.isnan().logical_not().sum().item<double>();
  }

  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override {
    return {{"reward", sums_[1] > 0 ? sums_[0] / sums_[1] : 0}};
  }
  bool higher_is_better() const override { return true; }

 private:
  std::vector<double> sums_ = {0, 0};  ///< rewards, prompts with one
};

const Register<MeanReward> mean_reward;

}  // namespace
}  // namespace accel
