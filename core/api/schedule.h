// The learning rate as a function of the optimizer step.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/recipe/units.h"

namespace accel {

struct StateDict;

/// Length of the run, for schedules in epochs or percent.
struct ScheduleContext {
  int64_t total_steps = 0;  ///< optimizer steps from start to end; 0 when bounded by time only
  int64_t steps_per_epoch = 0;
  int64_t samples_per_step = 0;
  int64_t tokens_per_step = 0;  ///< 0 when samples differ in length

  /// A duration in whole steps, rounded up as in transformers. Throws RecipeError-free
  /// std::invalid_argument for seconds, which have no number of steps.
  int64_t steps(const Duration& duration) const;
};

/// A closed form of the step: independent of world size, batch split and resume.
class Schedule {
 public:
  virtual ~Schedule() = default;

  /// The learning rate of update `step` (from 0) for a group with base rate `base`.
  virtual double lr(double base, int64_t step) const = 0;
  /// Steps at which a new curve begins: PyTorch has one scheduler object per curve.
  virtual std::vector<int64_t> milestones() const { return {}; }
  /// Entries that PyTorch's scheduler adds to a group in `param_groups`, by name.
  virtual std::map<std::string, double> group_rates(double /*base*/) const { return {}; }
  /// The metric that observe() reads, such as "eval/loss"; empty: none.
  virtual std::string watches() const { return {}; }
  /// The results of an evaluation: {"eval/loss", 0.1}, ... For `plateau`.
  virtual void observe(const std::map<std::string, double>& /*results*/) {}
  virtual void save(StateDict& /*state*/) const {}
  virtual void load(const StateDict& /*state*/) {}
};

}  // namespace accel
