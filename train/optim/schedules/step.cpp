// Periodic decay.
#include <algorithm>
#include <cmath>

#include "train/optim/schedules/warmed_schedule.h"

namespace accel {
namespace {

struct StepScheduleOptions {
  Duration every = {1, Duration::Unit::kEpochs};
  double gamma = 0.1;
  Duration warmup;
  double warmup_from = 0;
};

class StepSchedule final : public WarmedSchedule {
 public:
  static constexpr auto kName = "step";
  static constexpr const char* kHintFor[] = {"steplr", "step_lr"};
  static constexpr auto kSummary = "Decay by a factor at a fixed period.";
  static Schema<StepScheduleOptions> schema() {
    return with_warmup(
        Schema<StepScheduleOptions>()
            .field("every", &StepScheduleOptions::every,
                   "Period of the decays, counted from the start and not from the end of "
                   "warm-up.",
                   some_time())
            .field("gamma", &StepScheduleOptions::gamma,
                   "Factor of the learning rate at each decay.", more_than(0.0)));
  }

  StepSchedule(const StepScheduleOptions& options, const ScheduleContext& context)
      : WarmedSchedule(options, context),
        every_(std::max<int64_t>(1, steps_of("every", options.every, context))),
        gamma_(options.gamma) {}

 private:
  double rate(double base, int64_t step) const override {
    const int64_t drops = (step + warmup_steps()) / every_;
    return base * std::pow(gamma_, static_cast<double>(drops));
  }

  int64_t every_;
  double gamma_;
};

const Register<StepSchedule> step_schedule;

}  // namespace
}  // namespace accel
