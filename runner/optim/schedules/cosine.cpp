// Half a cosine wave to the end of the run.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "runner/optim/schedules/warmed_schedule.h"

namespace accel {
namespace {

struct CosineOptions {
  double min_lr = 0;
  double to = 0;
  double cycles = 0.5;
  Duration warmup;
  double warmup_from = 0;
};

class CosineSchedule final : public DecaySchedule {
 public:
  static constexpr auto kName = "cosine";
  static constexpr auto kSummary = "Half a cosine wave, slow at both ends.";
  static Schema<CosineOptions> schema() {
    return with_warmup(
        Schema<CosineOptions>()
            .field("min_lr", &CosineOptions::min_lr, "The rate it falls to.", at_least(0.0))
            .field("to", &CosineOptions::to,
                   "The same, times the optimizer's rate. The larger of the two counts.",
                   within(0.0, 1.0))
            .field("cycles", &CosineOptions::cycles,
                   "Waves in the run: 0.5 falls once, 1 falls and climbs again.", more_than(0.0)));
  }

  CosineSchedule(const CosineOptions& options, const ScheduleContext& context)
      : DecaySchedule(kName, options, context), options_(options) {}

 private:
  double rate(double base, int64_t step) const override {
    const double floor = std::max(options_.min_lr, options_.to * base);
    const double angle = std::numbers::pi * options_.cycles * 2 * done(step);
    return floor + (base - floor) * (0.5 * (1 + std::cos(angle)));
  }

  CosineOptions options_;
};

const Register<CosineSchedule> cosine_schedule;

}  // namespace
}  // namespace accel
