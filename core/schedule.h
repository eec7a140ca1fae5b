// The learning rate as a function of the optimizer step.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/units.h"

namespace accel {

struct StateDict;

/// How long the run is, for schedules given in epochs or percent.
struct ScheduleContext {
  int64_t total_steps = 0;  ///< optimizer steps from start to end; 0 when bounded by time only
  int64_t steps_per_epoch = 0;
  int64_t samples_per_step = 0;
  int64_t tokens_per_step = 0;  ///< 0 when samples are not all of so many tokens

  /// A duration in whole steps, rounded to nearest. Throws RecipeError-free std::invalid_argument
  /// for seconds, which have no number of steps.
  int64_t steps(const Duration& duration) const;
};

/// A closed form of the step: the same curve for any world size, batch split or resume.
class Schedule {
 public:
  virtual ~Schedule() = default;

  /// The rate of update number `step` (from 0) for a group whose own rate is `base`.
  virtual double lr(double base, int64_t step) const = 0;
  /// The updates at which one curve ends and another begins; for PyTorch, which has an object each.
  virtual std::vector<int64_t> milestones() const { return {}; }
  /// What PyTorch's counterpart keeps of a group in `param_groups`, by name.
  virtual std::map<std::string, double> group_rates(double /*base*/) const { return {}; }
  /// The name of the result that observe() wants, "eval/loss"; empty: none.
  virtual std::string watches() const { return {}; }
  /// The results of an evaluation: {"eval/loss", 0.1}, ... Only `plateau` cares.
  virtual void observe(const std::map<std::string, double>& /*results*/) {}
  virtual void save(StateDict& /*state*/) const {}
  virtual void load(const StateDict& /*state*/) {}
};

}  // namespace accel
