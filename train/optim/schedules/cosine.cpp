// Cosine decay to the end of the run.
#include <algorithm>
#include <cmath>
#include <numbers>

#include "train/optim/schedules/warmed_schedule.h"

namespace accel {
namespace {

struct CosineOptions {
  double min_lr = 0;
  double to = 0;
  double cycles = 0.5;
  Auto<int64_t> restarts;
  Duration warmup;
  double warmup_from = 0;
};

class CosineSchedule final : public DecaySchedule {
 public:
  static constexpr auto kName = "cosine";
  static constexpr const char* kHintFor[] = {"cosine_with_warmup", "cosine_with_restarts",
                                             "cosine_annealing", "cosineannealinglr"};
  static constexpr auto kSummary = "Cosine decay over the run.";
  static Schema<CosineOptions> schema() {
    return with_warmup(
        Schema<CosineOptions>()
            .field("min_lr", &CosineOptions::min_lr, "Final learning rate.", at_least(0.0))
            .hint_for({"eta_min", "lr_min", "min_learning_rate"})
            .field("to", &CosineOptions::to,
                   "Final learning rate as a fraction of the optimizer's. The larger of the two "
                   "applies.",
                   within(0.0, 1.0))
            .field("cycles", &CosineOptions::cycles,
                   "Cosine cycles in the run: 0.5 decays once, 1 decays and rises again.",
                   more_than(0.0))
            .hint_for({"num_cycles"})
            .field("restarts", &CosineOptions::restarts,
                   "Whole decays in the run, each from the full rate (hard restarts), in place of "
                   "cycles.",
                   if_given<Auto>(at_least<int64_t>(1)))
            .check([](const CosineOptions& options, const Node& node, Reading& reading) {
              if (!options.restarts || options.cycles == 0.5) return;
              reading.problems.error(node.find("cycles")->node.where,
                                     "'cycles' has no effect beside 'restarts'",
                                     "leave one of them out");
            }));
  }

  CosineSchedule(const CosineOptions& options, const ScheduleContext& context)
      : DecaySchedule(kName, options, context), options_(options) {}

 private:
  double rate(double base, int64_t step) const override {
    const double floor = std::max(options_.min_lr, options_.to * base);
    const double angle = std::numbers::pi * phase(done(step));
    return floor + (base - floor) * (0.5 * (1 + std::cos(angle)));
  }

  /// Position in the cosine: 0 at its top, 1 at its bottom.
  double phase(double done) const {
    if (!options_.restarts) return options_.cycles * 2 * done;
    return done >= 1 ? 1 : std::fmod(static_cast<double>(*options_.restarts) * done, 1.0);
  }

  CosineOptions options_;
};

const Register<CosineSchedule> cosine_schedule;

}  // namespace
}  // namespace accel
