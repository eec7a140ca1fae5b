// A scheduler: the learning rate falls in a line, again and again.
//
// It is a closed form of the number of updates, with nothing to remember: that is what makes the
// curve the same for any number of ranks and after any resume.
#include <algorithm>
#include <cstdint>

#include "core/api/schedule.h"
#include "core/recipe/registry.h"

namespace accel {
namespace {

struct SawtoothOptions {
  Duration period = {1, Duration::Unit::kEpochs};
  double low = 0.1;
};

Rule<Duration> not_by_the_clock() {
  return {[](const Duration& v) { return v.unit != Duration::Unit::kSeconds && v.value > 0; },
          "a number of steps, epochs or samples", ""};
}

class Sawtooth final : public Schedule {
 public:
  static constexpr auto kName = "example/sawtooth";
  static constexpr auto kSummary = "Falls in a line from the optimizer's rate, and starts over.";

  static Schema<SawtoothOptions> schema() {
    return Schema<SawtoothOptions>()
        .field("period", &SawtoothOptions::period, "How long one fall takes.", not_by_the_clock())
        .field("low", &SawtoothOptions::low, "Where it ends, times the optimizer's rate.",
               between(0.0, 1.0));
  }

  Sawtooth(const SawtoothOptions& options, const ScheduleContext& context)
      : low_(options.low), period_(std::max<int64_t>(1, context.steps(options.period))) {}

  double lr(double base, int64_t step) const override {
    const double done = static_cast<double>(step % period_) / static_cast<double>(period_);
    return base * (1 - (1 - low_) * done);
  }

 private:
  double low_;
  int64_t period_;
};

const Register<Sawtooth> sawtooth;

}  // namespace
}  // namespace accel
