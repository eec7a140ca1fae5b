// One-cycle schedule, as torch.optim.lr_scheduler.OneCycleLR.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/optim/schedules/warmed_schedule.h"

namespace accel {
namespace {

enum class AnnealStrategy { kCos, kLinear };

}  // namespace

template <>
struct EnumNames<AnnealStrategy> {
  static constexpr std::pair<AnnealStrategy, const char*> kValues[] = {
      {AnnealStrategy::kCos, "cos"}, {AnnealStrategy::kLinear, "linear"}};
};

namespace {

struct OneCycleOptions {
  double pct_start = 0.3;
  AnnealStrategy anneal_strategy = AnnealStrategy::kCos;
  double div_factor = 25;
  double final_div_factor = 1e4;
  bool three_phase = false;
};

class OneCycleSchedule final : public Schedule {
 public:
  static constexpr auto kName = "one_cycle";
  static constexpr const char* kHintFor[] = {"onecycle", "onecyclelr"};
  static constexpr auto kSummary = "Rises to the optimizer's rate, then decays far below it.";
  static Schema<OneCycleOptions> schema() {
    return Schema<OneCycleOptions>()
        .field("pct_start", &OneCycleOptions::pct_start,
               "Share of the run in which the rate rises.", within(0.0, 1.0))
        .field("anneal_strategy", &OneCycleOptions::anneal_strategy, "Shape of rise and decay.")
        .field("div_factor", &OneCycleOptions::div_factor,
               "Initial rate: the optimizer's divided by this.", more_than(0.0))
        .field("final_div_factor", &OneCycleOptions::final_div_factor,
               "Final rate: the initial rate divided by this.", more_than(0.0))
        .field("three_phase", &OneCycleOptions::three_phase,
               "Decay to the initial rate as fast as it rose, then to the final rate.");
  }

  OneCycleSchedule(const OneCycleOptions& options, const ScheduleContext& context)
      : options_(options), last_(run_length(kName, context) - 1) {
    const double total = static_cast<double>(last_ + 1);
    ends_.push_back(options.pct_start * total - 1);
    if (options.three_phase) ends_.push_back(2 * options.pct_start * total - 2);
    ends_.push_back(static_cast<double>(last_));
  }

  double lr(double base, int64_t step) const override {
    const double first = base / options_.div_factor;
    std::vector<double> turns = {first, base};
    if (options_.three_phase) turns.push_back(first);
    turns.push_back(first / options_.final_div_factor);

    const auto now = static_cast<double>(std::min(step, last_));
    double begin = 0;
    size_t phase = 0;
    while (phase + 1 < ends_.size() && now > ends_[phase]) begin = ends_[phase++];
    const double length = ends_[phase] - begin;
    const double done = length > 0 ? (now - begin) / length : 1;
    return between_turns(turns[phase], turns[phase + 1], done);
  }

  std::map<std::string, double> group_rates(double base) const override {
    const double first = base / options_.div_factor;
    return {{"initial_lr", first}, {"max_lr", base}, {"min_lr", first / options_.final_div_factor}};
  }

 private:
  double between_turns(double start, double end, double done) const {
    if (options_.anneal_strategy == AnnealStrategy::kLinear) return (end - start) * done + start;
    return end + (start - end) / 2 * (std::cos(std::numbers::pi * done) + 1);
  }

  OneCycleOptions options_;
  int64_t last_;
  std::vector<double> ends_;  // last step of each phase
};

const Register<OneCycleSchedule> one_cycle_schedule;

}  // namespace
}  // namespace accel
