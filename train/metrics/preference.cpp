// Metrics of preference pairs, under TRL's names.
#include "core/api/metric.h"
#include "core/api/sequence_pairs.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct RewardsOptions {};

double column_sum(const at::Tensor& output, int64_t column) {
  return output.select(1, column).to(at::kDouble).sum().item<double>();
}

class Rewards final : public Metric {
 public:
  static constexpr auto kName = "rewards";
  static constexpr auto kSummary =
      "Mean rewards of chosen and rejected answers, their margin, and the share of pairs in which "
      "the chosen one has the higher reward.";

  static Schema<RewardsOptions> schema() { return {}; }

  explicit Rewards(const RewardsOptions&) {}

  void update(const EvalStep& step) override {
    const at::Tensor chosen = step.output.select(1, kChosenReward);
    const at::Tensor rejected = step.output.select(1, kRejectedReward);
    sums_[0] += column_sum(step.output, kChosenReward);
    sums_[1] += column_sum(step.output, kRejectedReward);
    sums_[2] += static_cast<double>(chosen.gt(rejected).sum().item<int64_t>());
    sums_[3] += static_cast<double>(step.output.size(0));
  }
  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override {
    return {{"rewards/accuracies", sums_[2] / sums_[3]},
            {"rewards/chosen", sums_[0] / sums_[3]},
            {"rewards/rejected", sums_[1] / sums_[3]},
            {"rewards/margins", (sums_[0] - sums_[1]) / sums_[3]}};
  }
  bool higher_is_better() const override { return true; }

 private:
  std::vector<double> sums_ = {0, 0, 0, 0};  ///< chosen, rejected, chosen is higher, pairs
};

struct LogpsOptions {};

class Logps final : public Metric {
 public:
  static constexpr auto kName = "logps";
  static constexpr auto kSummary =
      "Mean log-probabilities of chosen and rejected answers, summed over their tokens.";

  static Schema<LogpsOptions> schema() { return {}; }

  explicit Logps(const LogpsOptions&) {}

  void update(const EvalStep& step) override {
    sums_[0] += column_sum(step.output, kChosenLogProb);
    sums_[1] += column_sum(step.output, kRejectedLogProb);
    sums_[2] += static_cast<double>(step.output.size(0));
  }
  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override {
    return {{"logps/chosen", sums_[0] / sums_[2]}, {"logps/rejected", sums_[1] / sums_[2]}};
  }
  bool higher_is_better() const override { return true; }

 private:
  std::vector<double> sums_ = {0, 0, 0};  ///< chosen, rejected, pairs
};

const Register<Rewards> rewards;
const Register<Logps> logps;

}  // namespace
}  // namespace accel
