// Decay at given milestones.
#include <algorithm>
#include <cmath>

#include "train/optim/schedules/warmed_schedule.h"

namespace accel {
namespace {

struct MultistepOptions {
  Durations milestones;
  double gamma = 0.1;
  Duration warmup;
  double warmup_from = 0;
};

class MultistepSchedule final : public WarmedSchedule {
 public:
  static constexpr auto kName = "multistep";
  static constexpr const char* kHintFor[] = {"multi_step", "multisteplr"};
  static constexpr auto kSummary = "Decay by a factor at each milestone.";
  static Schema<MultistepOptions> schema() {
    return with_warmup(Schema<MultistepOptions>()
                           .field("milestones", &MultistepOptions::milestones,
                                  "Times of the decays, such as [50%, 75%], counted from the "
                                  "start.")
                           .required()
                           .field("gamma", &MultistepOptions::gamma,
                                  "Factor of the learning rate at each decay.", more_than(0.0)));
  }

  MultistepSchedule(const MultistepOptions& options, const ScheduleContext& context)
      : WarmedSchedule(options, context), gamma_(options.gamma) {
    for (const Duration& milestone : options.milestones) {
      milestones_.push_back(steps_of("milestones", milestone, context));
    }
  }

 private:
  double rate(double base, int64_t step) const override {
    const int64_t now = step + warmup_steps();
    const auto drops = std::count_if(milestones_.begin(), milestones_.end(),
                                     [now](int64_t milestone) { return milestone <= now; });
    return base * std::pow(gamma_, static_cast<double>(drops));
  }

  std::vector<int64_t> milestones_;
  double gamma_;
};

const Register<MultistepSchedule> multistep_schedule;

}  // namespace
}  // namespace accel
