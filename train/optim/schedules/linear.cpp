// Linear schedule to the end of the run.
#include "train/optim/schedules/warmed_schedule.h"

namespace accel {
namespace {

struct LinearScheduleOptions {
  double from = 1;
  double to = 0;
  Duration warmup;
  double warmup_from = 0;
};

class LinearSchedule final : public DecaySchedule {
 public:
  static constexpr auto kName = "linear";
  static constexpr const char* kHintFor[] = {"linear_with_warmup", "linearlr"};
  static constexpr auto kSummary = "Linear decay, by default to zero.";
  static Schema<LinearScheduleOptions> schema() {
    return with_warmup(Schema<LinearScheduleOptions>()
                           .field("from", &LinearScheduleOptions::from,
                                  "Initial rate as a fraction of the optimizer's.", at_least(0.0))
                           .field("to", &LinearScheduleOptions::to,
                                  "Final rate as a fraction of the optimizer's.", at_least(0.0)));
  }

  LinearSchedule(const LinearScheduleOptions& options, const ScheduleContext& context)
      : DecaySchedule(kName, options, context), options_(options) {}

 private:
  double rate(double base, int64_t step) const override {
    return base * (options_.to + (options_.from - options_.to) * left(step));
  }

  LinearScheduleOptions options_;
};

const Register<LinearSchedule> linear_schedule;

}  // namespace
}  // namespace accel
