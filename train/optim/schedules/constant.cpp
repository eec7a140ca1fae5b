// Constant learning rate.
#include "train/optim/schedules/warmed_schedule.h"

namespace accel {
namespace {

struct ConstantOptions {
  Duration warmup;
  double warmup_from = 0;
};

class ConstantSchedule final : public WarmedSchedule {
 public:
  static constexpr auto kName = "constant";
  static constexpr const char* kHintFor[] = {"constant_with_warmup"};
  static constexpr auto kSummary = "The optimizer's learning rate, after warm-up.";
  static Schema<ConstantOptions> schema() { return with_warmup(Schema<ConstantOptions>()); }

  ConstantSchedule(const ConstantOptions& options, const ScheduleContext& context)
      : WarmedSchedule(options, context) {}

 private:
  double rate(double base, int64_t) const override { return base; }
};

const Register<ConstantSchedule> constant_schedule;

}  // namespace
}  // namespace accel
