// A straight line to the end of the run.
#include "runner/optim/schedules/warmed_schedule.h"

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
  static constexpr auto kSummary = "A straight line, down to zero unless told otherwise.";
  static Schema<LinearScheduleOptions> schema() {
    return with_warmup(Schema<LinearScheduleOptions>()
                           .field("from", &LinearScheduleOptions::from,
                                  "Where it starts, times the optimizer's rate.", at_least(0.0))
                           .field("to", &LinearScheduleOptions::to,
                                  "Where it ends, times the optimizer's rate.", at_least(0.0)));
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
