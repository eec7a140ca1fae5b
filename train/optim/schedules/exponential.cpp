// Exponential decay.
#include <algorithm>
#include <cmath>

#include "train/optim/schedules/warmed_schedule.h"

namespace accel {
namespace {

struct ExponentialOptions {
  double gamma = 0.9;
  Duration every = {1, Duration::Unit::kEpochs};
  Duration warmup;
  double warmup_from = 0;
};

class ExponentialSchedule final : public WarmedSchedule {
 public:
  static constexpr auto kName = "exponential";
  static constexpr const char* kHintFor[] = {"exponentiallr"};
  static constexpr auto kSummary = "Exponential decay.";
  static Schema<ExponentialOptions> schema() {
    return with_warmup(Schema<ExponentialOptions>()
                           .field("gamma", &ExponentialOptions::gamma,
                                  "Factor of the learning rate per `every`.", more_than(0.0))
                           .field("every", &ExponentialOptions::every,
                                  "Period of a decay by `gamma`, interpolated smoothly.",
                                  some_time()));
  }

  ExponentialSchedule(const ExponentialOptions& options, const ScheduleContext& context)
      : WarmedSchedule(options, context),
        gamma_(options.gamma),
        every_(std::max<int64_t>(1, steps_of("every", options.every, context))) {}

 private:
  double rate(double base, int64_t step) const override {
    return base * std::pow(gamma_, static_cast<double>(step) / static_cast<double>(every_));
  }

  double gamma_;
  int64_t every_;
};

const Register<ExponentialSchedule> exponential_schedule;

}  // namespace
}  // namespace accel
