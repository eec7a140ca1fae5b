// Polynomial decay.
#include <cmath>

#include "train/optim/schedules/warmed_schedule.h"

namespace accel {
namespace {

struct PolynomialOptions {
  double power = 1;
  double min_lr = 0;
  Duration warmup;
  double warmup_from = 0;
};

class PolynomialSchedule final : public DecaySchedule {
 public:
  static constexpr auto kName = "polynomial";
  static constexpr const char* kHintFor[] = {"poly", "polynomiallr"};
  static constexpr auto kSummary = "Polynomial decay to the end of the run.";
  static Schema<PolynomialOptions> schema() {
    return with_warmup(
        Schema<PolynomialOptions>()
            .field("power", &PolynomialOptions::power,
                   "Exponent of the decay: 1 is linear, 2 decays earlier.", more_than(0.0))
            .field("min_lr", &PolynomialOptions::min_lr, "Final learning rate.", at_least(0.0)));
  }

  PolynomialSchedule(const PolynomialOptions& options, const ScheduleContext& context)
      : DecaySchedule(kName, options, context), options_(options) {}

 private:
  double rate(double base, int64_t step) const override {
    const double end = options_.min_lr;
    return (base - end) * std::pow(left(step), options_.power) + end;
  }

  PolynomialOptions options_;
};

const Register<PolynomialSchedule> polynomial_schedule;

}  // namespace
}  // namespace accel
