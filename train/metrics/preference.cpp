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

struct UnpairedRewardsOptions {};

class UnpairedRewards final : public Metric {
 public:
  static constexpr auto kName = "unpaired_rewards";
  static constexpr auto kSummary =
      "Mean rewards and log-probabilities of desirable (chosen) and other (rejected) answers, and "
      "the divergence from the reference.";

  static Schema<UnpairedRewardsOptions> schema() { return {}; }

  explicit UnpairedRewards(const UnpairedRewardsOptions&) {}

  void update(const EvalStep& step) override {
    const at::Tensor label = step.output.select(1, kAnswerLabel).to(at::kDouble);
    const at::Tensor weights[] = {label, label.neg().add(1)};
    for (size_t i = 0; i < 2; ++i) {
      const auto sum = [&](int64_t column) {
        return step.output.select(1, column).to(at::kDouble).mul(weights[i]).sum().item<double>();
      };
      sums_[3 * i] += sum(kAnswerReward);
      sums_[3 * i + 1] += sum(kAnswerLogProb);
      sums_[3 * i + 2] += weights[i].sum().item<double>();
    }
    sums_[6] += column_sum(step.output, kAnswerKl);
  }
  std::vector<double>& sums() override { return sums_; }
  std::vector<std::pair<std::string, double>> values() const override {
    const double chosen = sums_[2], rejected = sums_[5];  // without any: not a number
    return {{"kl", sums_[6] / (chosen + rejected)},
            {"rewards/margins", sums_[0] / chosen - sums_[3] / rejected},
            {"rewards/chosen", sums_[0] / chosen},
            {"rewards/rejected", sums_[3] / rejected},
            {"logps/chosen", sums_[1] / chosen},
            {"logps/rejected", sums_[4] / rejected}};
  }
  bool higher_is_better() const override { return true; }

 private:
  /// Rewards, log-probabilities and count of desirable answers, the same of others, divergence.
  std::vector<double> sums_ = {0, 0, 0, 0, 0, 0, 0};
};

const Register<UnpairedRewards> unpaired_rewards;
const Register<Rewards> rewards;
const Register<Logps> logps;

}  // namespace
}  // namespace accel
