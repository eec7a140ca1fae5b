// Warmup-stable-decay schedule.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/optim/schedules/warmed_schedule.h"

namespace accel {
namespace {

enum class WsdDecay { kCosine, kLinear, kSqrt };

}  // namespace

template <>
struct EnumNames<WsdDecay> {
  static constexpr std::pair<WsdDecay, const char*> kValues[] = {
      {WsdDecay::kCosine, "cosine"}, {WsdDecay::kLinear, "linear"}, {WsdDecay::kSqrt, "1-sqrt"}};
};

namespace {

struct WsdOptions {
  Duration decay = {10, Duration::Unit::kPercent};
  WsdDecay decay_type = WsdDecay::kCosine;
  double to = 0;
  Duration warmup;
  double warmup_from = 0;
};

class WsdSchedule final : public WarmedSchedule {
 public:
  static constexpr auto kName = "wsd";
  static constexpr const char* kHintFor[] = {"warmup_stable_decay"};
  static constexpr auto kSummary = "Warm-up, constant rate, decay at the end of the run.";
  static Schema<WsdOptions> schema() {
    return with_warmup(Schema<WsdOptions>()
                           .field("decay", &WsdOptions::decay, "Duration of the final decay.")
                           .field("decay_type", &WsdOptions::decay_type, "Shape of the decay.")
                           .field("to", &WsdOptions::to,
                                  "Final rate as a fraction of the optimizer's.",
                                  within(0.0, 1.0)));
  }

  WsdSchedule(const WsdOptions& options, const ScheduleContext& context)
      : WarmedSchedule(options, context),
        options_(options),
        decay_(std::max<int64_t>(1, steps_of("decay", options.decay, context))),
        stable_(run_length(kName, context) - warmup_steps() - decay_) {
    if (stable_ < 0) {
      throw Error(ExitCode::kRecipe, "'warmup' and 'decay' together are longer than the run");
    }
  }

 private:
  double rate(double base, int64_t step) const override {
    if (step < stable_) return base;
    const auto fallen = static_cast<double>(std::min(step - stable_, decay_));
    const double factor = shape(fallen / static_cast<double>(decay_));
    return base * (std::max(0.0, factor) * (1 - options_.to) + options_.to);
  }

  double shape(double done) const {
    switch (options_.decay_type) {
      case WsdDecay::kCosine:
        return 0.5 * (1 + std::cos(std::numbers::pi * done));
      case WsdDecay::kLinear:
        return 1 - done;
      case WsdDecay::kSqrt:
        return 1 - std::sqrt(done);
    }
    return 0;
  }

  WsdOptions options_;
  int64_t decay_;
  int64_t stable_;
};

const Register<WsdSchedule> wsd_schedule;

}  // namespace
}  // namespace accel
