// Base classes of schedules with linear warm-up.
#pragma once

#include <string>
#include <utility>

#include "core/api/schedule.h"
#include "core/recipe/registry.h"

namespace accel {

/// A duration in steps. Throws Error(kRecipe) that names the option when it has no number of steps.
int64_t steps_of(const std::string& option, const Duration& duration,
                 const ScheduleContext& context);

/// The steps of the run. Throws Error(kRecipe) that names the schedule when only time bounds the
/// run.
int64_t run_length(const std::string& schedule, const ScheduleContext& context);

/// A positive period.
inline Rule<Duration> some_time() {
  return {[](const Duration& duration) { return duration.value > 0; }, "more than nothing", ""};
}

/// Adds `warmup` and `warmup_from` to a schedule's options, which have members of these names.
template <class Options>
Schema<Options> with_warmup(Schema<Options> schema) {
  return std::move(schema)
      .field("warmup", &Options::warmup,
             "Duration of linear warm-up to the optimizer's learning rate. Longer is more stable "
             "at high rates.")
      .hint_for({"warmup_steps", "num_warmup_steps", "warmup_iters", "lr_warmup_steps"}, "{} steps")
      .hint_for({"warmup_epochs", "lr_warmup_epochs"}, "{} epochs")
      .hint_for({"warmup_ratio", "warmup_proportion", "warmup_fraction"}, "{percent}")
      .field("warmup_from", &Options::warmup_from,
             "Initial rate of warm-up as a fraction of the optimizer's.", between(0.0, 1.0));
}

/// A curve after linear warm-up. Update 0 has the rate `warmup_from` * base.
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

/// A curve over the length of the run.
class DecaySchedule : public WarmedSchedule {
 protected:
  template <class Options>
  DecaySchedule(const std::string& name, const Options& options, const ScheduleContext& context)
      : WarmedSchedule(options, context), length_(run_length(name, context) - warmup_steps()) {}

  /// The remaining fraction between the end of warm-up and the end of the run: from 1 to 0.
  double left(int64_t step) const {
    if (step >= length_) return 0;
    return static_cast<double>(length_ - step) / static_cast<double>(length_);
  }
  /// The completed fraction: from 0 to 1.
  double done(int64_t step) const {
    if (step >= length_) return 1;
    return static_cast<double>(step) / static_cast<double>(length_);
  }

 private:
  int64_t length_;
};

}  // namespace accel
