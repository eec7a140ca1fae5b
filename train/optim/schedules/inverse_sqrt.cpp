// Inverse square root decay.
#include <algorithm>
#include <cmath>

#include "train/optim/schedules/warmed_schedule.h"

namespace accel {
namespace {

/// The default timescale without warm-up.
constexpr int64_t kDefaultTimescale = 10000;

struct InverseSqrtOptions {
  Auto<Duration> timescale;
  Duration warmup;
  double warmup_from = 0;
};

class InverseSqrtSchedule final : public WarmedSchedule {
 public:
  static constexpr auto kName = "inverse_sqrt";
  static constexpr const char* kHintFor[] = {"inverse_square_root", "noam"};
  static constexpr auto kSummary = "Inverse square root decay, for runs without a fixed length.";
  static Schema<InverseSqrtOptions> schema() {
    return with_warmup(
        Schema<InverseSqrtOptions>().field("timescale", &InverseSqrtOptions::timescale,
                                           "The learning rate is halved after three times this. "
                                           "auto: the length of warm-up, or 10000 steps."));
  }

  InverseSqrtSchedule(const InverseSqrtOptions& options, const ScheduleContext& context)
      : WarmedSchedule(options, context),
        timescale_(warmup_steps() > 0 ? warmup_steps() : kDefaultTimescale) {
    if (options.timescale) {
      timescale_ = std::max<int64_t>(1, steps_of("timescale", *options.timescale, context));
    }
  }

 private:
  double rate(double base, int64_t step) const override {
    const auto scale = static_cast<double>(timescale_);
    return base * (1 / std::sqrt((static_cast<double>(step) + scale) / scale));
  }

  int64_t timescale_;
};

const Register<InverseSqrtSchedule> inverse_sqrt_schedule;

}  // namespace
}  // namespace accel
