// Warm-up, which every schedule has that is not one itself.
#pragma once

#include <string>
#include <utility>

#include "core/registry.h"
#include "core/schedule.h"

namespace accel {

/// A duration in steps. Throws Error(kRecipe) naming the option when it has no number of steps.
int64_t steps_of(const std::string& option, const Duration& duration,
                 const ScheduleContext& context);

/// The steps of the run. Throws Error(kRecipe) naming the schedule when only time bounds the run.
int64_t run_length(const std::string& schedule, const ScheduleContext& context);

/// For the time from one change of the rate to the next.
inline Rule<Duration> some_time() {
  return {[](const Duration& duration) { return duration.value > 0; }, "more than nothing", ""};
}

/// Adds `warmup` and `warmup_from` to a schedule's options, which have members of these names.
template <class Options>
Schema<Options> with_warmup(Schema<Options> schema) {
  return std::move(schema)
      .field("warmup", &Options::warmup,
             "How long the rate first climbs in a straight line to the optimizer's own.")
      .field("warmup_from", &Options::warmup_from,
             "Where warm-up starts, as a fraction of the optimizer's rate.", between(0.0, 1.0));
}

/// A curve behind a straight warm-up. Update 0 has the rate `warmup_from` * base.
class WarmedSchedule : public Schedule {
 public:
  double lr(double base, int64_t step) const final {
    if (step >= warmup_) return rate(base, step - warmup_);
    const double part = static_cast<double>(step) / static_cast<double>(warmup_);
    return base * (warmup_from_ + (1 - warmup_from_) * part);
  }

  std::vector<int64_t> milestones() const override {
    return warmup_ > 0 ? std::vector<int64_t>{warmup_} : std::vector<int64_t>{};
  }

 protected:
  template <class Options>
  WarmedSchedule(const Options& options, const ScheduleContext& context)
      : warmup_(steps_of("warmup", options.warmup, context)), warmup_from_(options.warmup_from) {}

  /// The rate `step` updates after the end of warm-up.
  virtual double rate(double base, int64_t step) const = 0;

  int64_t warmup_steps() const { return warmup_; }

 private:
  int64_t warmup_;
  double warmup_from_;
};

/// A curve that ends with the run.
class DecaySchedule : public WarmedSchedule {
 protected:
  template <class Options>
  DecaySchedule(const std::string& name, const Options& options, const ScheduleContext& context)
      : WarmedSchedule(options, context), length_(run_length(name, context) - warmup_steps()) {}

  /// How much of the way from the end of warm-up to the end of the run is left: 1 at first, then
  /// down to 0.
  double left(int64_t step) const {
    if (step >= length_) return 0;
    return static_cast<double>(length_ - step) / static_cast<double>(length_);
  }
  /// How much of that way is done: 0 at first, then up to 1.
  double done(int64_t step) const {
    if (step >= length_) return 1;
    return static_cast<double>(step) / static_cast<double>(length_);
  }

 private:
  int64_t length_;
};

}  // namespace accel
