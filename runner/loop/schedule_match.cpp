#include "runner/loop/schedule_match.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/scalar.h"
#include "runner/checkpoint/layout.h"

namespace accel {
namespace {

/// PyTorch computes most rates from the ones before and so drifts by some units in the last place.
constexpr double kTolerance = 1e-6;
/// Steps at which a curve is compared, spread over what is left of the run.
constexpr int64_t kMostComparisons = 10000;
/// Steps looked at when only time bounds the run.
constexpr int64_t kUnboundedSteps = 10000;

bool close(double a, double b) {
  return std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b)) + 1e-15;
}

std::optional<double> hyper_number(const OptimizerState::Group& group, const char* key) {
  for (const auto& [name, value] : group.hyper) {
    if (name != key) continue;
    if (const auto* number = std::get_if<double>(&value)) return *number;
    if (const auto* whole = std::get_if<int64_t>(&value)) return static_cast<double>(*whole);
  }
  return std::nullopt;
}

/// One group's rates as the folder tells them.
struct Told {
  GroupRates rates;
  std::optional<double> base;  ///< what the recipe calls `lr`
  double now = 0;              ///< of the next update
};

Told told_of(const TrainState& state, size_t g) {
  const OptimizerState::Group& group = state.optimizer.groups[g];
  const auto& schedule = state.accelerate->schedule;
  Told out;
  const double current = hyper_number(group, "lr").value_or(0);
  out.now = schedule && g < schedule->last_lrs.size() ? schedule->last_lrs[g] : current;
  if (g < state.base_lrs.size()) out.base = state.base_lrs[g];
  if (!schedule && !out.base) out.base = current;
  out.rates.initial = out.base.value_or(current);
  out.rates.max = hyper_number(group, "max_lr").value_or(out.rates.initial);
  out.rates.min = hyper_number(group, "min_lr").value_or(out.rates.initial);
  if (schedule && schedule->type == "OneCycleLR") out.base = out.rates.max;
  return out;
}

std::string key_of(const char* option, size_t group, size_t groups) {
  return groups == 1 ? "optimizer." + std::string(option)
                     : "optimizer.groups." + std::to_string(group) + "." + option;
}

std::string schedule_name(const Job& job) {
  const auto& phases = job.recipe.scheduler.phases;
  std::string out;
  for (const SchedulePhase& phase : phases) {
    out += (out.empty() ? "" : ", ") + phase.component.type;
  }
  return out;
}

class Comparison {
 public:
  Comparison(const Job& job, const TrainState& state, int64_t updates)
      : job_(job), state_(state), notes_(*state.accelerate), updates_(updates) {
    if (notes_.schedule) type_ = notes_.schedule->type;
    per_update_ = 0;
    for (const int64_t k : {int64_t{1}, notes_.processes}) {
      if (notes_.schedule && notes_.schedule->steps == updates * k) per_update_ = k;
      if (per_update_) break;
    }
  }

  /// What the curve cannot be followed for; empty when it can.
  std::string blind() const {
    if (!notes_.schedule) return {};
    const std::string name = "'" + std::string(kSchedulerFile) + "' ";
    if (!notes_.schedule->curve) return name + "is a " + type_ + ", which does not keep its curve";
    if (per_update_ > 0) return {};
    return name + "was stepped " + std::to_string(notes_.schedule->steps) + " times in " +
           std::to_string(updates_) + " updates";
  }

  std::optional<RecipeChange> of_group(size_t g) const {
    const Told told = told_of(state_, g);
    const double base = job_.optimizer->base_lrs()[g];
    const size_t groups = state_.optimizer.groups.size();
    if (told.base && !close(*told.base, base)) {
      return RecipeChange{key_of("lr", g, groups), show_number(*told.base), show_number(base)};
    }
    if (auto change = at(updates_, told.now, base)) return change;
    if (!blind().empty()) return std::nullopt;
    const int64_t total = job_.length.total_steps;
    const int64_t end = total > 0 ? total : updates_ + kUnboundedSteps;
    const int64_t stride = std::max<int64_t>(1, (end - updates_) / kMostComparisons);
    for (int64_t update = updates_; update < end; update += stride) {
      if (auto change = at(update, future(told, update), base)) return change;
    }
    return std::nullopt;
  }

 private:
  double future(const Told& told, int64_t update) const {
    if (!notes_.schedule) return told.now;
    return notes_.schedule->curve(told.rates, static_cast<double>(update * per_update_));
  }

  std::optional<RecipeChange> at(int64_t update, double theirs, double base) const {
    const double ours = job_.schedule->lr(base, update);
    if (close(theirs, ours)) return std::nullopt;
    return RecipeChange{"scheduler",
                        (type_.empty() ? std::string("none") : type_) + ", with the rate " +
                            show_number(theirs) + " for update " + std::to_string(update + 1),
                        schedule_name(job_) + ", with " + show_number(ours)};
  }

  const Job& job_;
  const TrainState& state_;
  const AccelerateNotes& notes_;
  int64_t updates_;
  std::string type_;
  int64_t per_update_;  ///< steps of the scheduler per update; 0: not known
};

/// More drops than take a rate of 1 below the smallest double, at the usual factor.
constexpr int64_t kMostDrops = 1000;

/// ReduceLROnPlateau has its options in its state, under the names of ours.
void compare_plateau(const Job& job, const TrainState& state, std::vector<RecipeChange>& changes) {
  const Node& ours = job.recipe.scheduler.phases.front().component.resolved;
  for (const char* key :
       {"mode", "factor", "patience", "threshold", "threshold_mode", "cooldown"}) {
    const Node::Entry* entry = ours.find(key);
    if (!entry || !entry->node.scalar()) continue;
    const std::string& now = entry->node.scalar()->text;
    const auto number = state.schedule.numbers.find(key);
    const auto text = state.schedule.texts.find(key);
    const bool told = number != state.schedule.numbers.end();
    if (!told && text == state.schedule.texts.end()) continue;
    const std::string then = told ? show_number(number->second) : text->second;
    if (then != now) changes.push_back({"scheduler." + std::string(key), then, now});
  }
}

}  // namespace

void carry_schedule(Job& job, int64_t updates, TrainState& state) {
  if (job.schedule->watches().empty()) return;
  const auto& schedule = state.accelerate->schedule;
  auto& numbers = state.schedule.numbers;
  if (!schedule || schedule->type != "ReduceLROnPlateau" || schedule->last_lrs.empty()) {
    numbers.clear();
    job.schedule->save(state.schedule);
    return;
  }
  const double base = job.optimizer->base_lrs().front();
  for (int64_t drops = 0; drops <= kMostDrops; ++drops) {
    numbers["drops"] = static_cast<double>(drops);
    job.schedule->load(state.schedule);
    if (close(job.schedule->lr(base, updates), schedule->last_lrs.front())) return;
  }
  numbers["drops"] = 0;
  job.schedule->load(state.schedule);
}

std::vector<RecipeChange> compare_rates(const Job& job, const TrainState& state, int64_t updates,
                                        std::vector<std::string>& notes) {
  const auto& schedule = state.accelerate->schedule;
  const size_t groups = state.optimizer.groups.size();
  if (schedule && schedule->last_lrs.size() != groups) {
    throw CheckpointError("'" + std::string(kSchedulerFile) + "' has " +
                          std::to_string(schedule->last_lrs.size()) + " rates for the " +
                          std::to_string(groups) + " groups of the optimizer");
  }
  std::vector<RecipeChange> changes;
  if (schedule && schedule->cycles_momentum) {
    changes.push_back({"scheduler", schedule->type + ", which cycles the momentum as well",
                       schedule_name(job) + ", which does not"});
  }
  if (schedule && schedule->strange) {
    changes.push_back({"scheduler", schedule->type, schedule_name(job)});
  }
  if (schedule && schedule->type == "ReduceLROnPlateau") compare_plateau(job, state, changes);
  const Comparison comparison(job, state, updates);
  for (size_t g = 0; g < groups && changes.empty(); ++g) {
    if (auto change = comparison.of_group(g)) changes.push_back(std::move(*change));
  }
  if (const std::string blind = comparison.blind(); !blind.empty()) {
    notes.push_back(blind + ": only its present rate was compared with the recipe's");
  }
  return changes;
}

}  // namespace accel
