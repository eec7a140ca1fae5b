#include "compat/accelerate/schedule_match.h"

#include <algorithm>
#include <cmath>

#include "checkpoint/file_names.h"
#include "core/base/error.h"
#include "core/base/text.h"
#include "core/recipe/number_text.h"

namespace accel {
namespace {

/// PyTorch computes most rates recursively, with rounding errors of some units in the last place.
constexpr double kTolerance = 1e-6;
/// Steps at which curves are compared, spread over the rest of the run.
constexpr int64_t kMaxComparisons = 10000;
/// Compared steps of a run that is bounded by time.
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

/// The learning rates of a group in the checkpoint.
struct ImportedRates {
  GroupRates rates;
  std::optional<double> base;  ///< the recipe's `lr`
  double next = 0;             ///< of the next update
};

ImportedRates imported_rates(const TrainState& state, size_t g) {
  const OptimizerState::Group& group = state.optimizer.groups[g];
  const auto& schedule = state.accelerate->schedule;
  ImportedRates out;
  const double current = hyper_number(group, "lr").value_or(0);
  out.next = schedule && g < schedule->last_lrs.size() ? schedule->last_lrs[g] : current;
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
  return joined(job.recipe.scheduler.phases, ", ",
                [](const SchedulePhase& phase) { return phase.component.type; });
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

  /// The reason why future rates cannot be compared; empty when they can.
  std::string limitation() const {
    if (!notes_.schedule) return {};
    if (!notes_.schedule->curve) {
      return text("'{}' is a {}, whose future rates are not in its state", kSchedulerFile, type_);
    }
    if (per_update_ > 0) return {};
    return text("'{}' was stepped {} times in {} updates", kSchedulerFile, notes_.schedule->steps,
                updates_);
  }

  std::optional<RecipeChange> of_group(size_t g) const {
    const ImportedRates imported = imported_rates(state_, g);
    const double base = job_.optimizer->base_lrs()[g];
    const size_t groups = state_.optimizer.groups.size();
    if (imported.base && !close(*imported.base, base)) {
      return RecipeChange{key_of("lr", g, groups), show_number(*imported.base), show_number(base)};
    }
    if (auto change = at(updates_, imported.next, base)) return change;
    if (!limitation().empty()) return std::nullopt;
    const int64_t total = job_.length.total_steps;
    const int64_t end = total > 0 ? total : updates_ + kUnboundedSteps;
    const int64_t stride = std::max<int64_t>(1, (end - updates_) / kMaxComparisons);
    for (int64_t update = updates_; update < end; update += stride) {
      if (auto change = at(update, future(imported, update), base)) return change;
    }
    return std::nullopt;
  }

 private:
  double future(const ImportedRates& imported, int64_t update) const {
    if (!notes_.schedule) return imported.next;
    return notes_.schedule->curve(imported.rates, static_cast<double>(update * per_update_));
  }

  std::optional<RecipeChange> at(int64_t update, double theirs, double base) const {
    const double ours = job_.schedule->lr(base, update);
    if (close(theirs, ours)) return std::nullopt;
    return RecipeChange{"scheduler",
                        text("{}, with the rate {} for update {}", type_.empty() ? "none" : type_,
                             show_number(theirs), update + 1),
                        text("{}, with {}", schedule_name(job_), show_number(ours))};
  }

  const Job& job_;
  const TrainState& state_;
  const AccelerateNotes& notes_;
  int64_t updates_;
  std::string type_;
  int64_t per_update_;  ///< steps of the scheduler per update; 0: unknown
};

/// Upper bound of drops: underflow of a rate at the usual factor.
constexpr int64_t kMaxDrops = 1000;

/// Compares the options of ReduceLROnPlateau, which its state has by the same names.
void compare_plateau(const Job& job, const TrainState& state, std::vector<RecipeChange>& changes) {
  const Node& ours = job.recipe.scheduler.phases.front().component.resolved;
  for (const char* key :
       {"mode", "factor", "patience", "threshold", "threshold_mode", "cooldown", "min_lr", "eps"}) {
    const Node::Entry* entry = ours.find(key);
    if (!entry || !entry->node.scalar()) continue;
    const std::string& now = entry->node.scalar()->text;
    const auto number = state.schedule.numbers.find(key);
    const auto word = state.schedule.texts.find(key);
    const bool numeric = number != state.schedule.numbers.end();
    if (!numeric && word == state.schedule.texts.end()) continue;
    const std::string then = numeric ? show_number(number->second) : word->second;
    if (then != now) changes.push_back({"scheduler." + std::string(key), then, now});
  }
}

}  // namespace

void import_schedule(Job& job, int64_t updates, TrainState& state) {
  if (job.schedule->watches().empty()) return;
  const auto& schedule = state.accelerate->schedule;
  auto& numbers = state.schedule.numbers;
  if (!schedule || schedule->type != "ReduceLROnPlateau" || schedule->last_lrs.empty()) {
    numbers.clear();
    job.schedule->save(state.schedule);
    return;
  }
  const double base = job.optimizer->base_lrs().front();
  for (int64_t drops = 0; drops <= kMaxDrops; ++drops) {
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
    throw CheckpointError(text("'{}' has {} rates for the {} groups of the optimizer",
                               kSchedulerFile, schedule->last_lrs.size(), groups));
  }
  std::vector<RecipeChange> changes;
  if (schedule && schedule->cycles_momentum) {
    changes.push_back({"scheduler", text("{}, which cycles the momentum as well", schedule->type),
                       text("{}, which does not", schedule_name(job))});
  }
  if (schedule && schedule->unsupported) {
    changes.push_back({"scheduler", schedule->type, schedule_name(job)});
  }
  if (schedule && schedule->type == "ReduceLROnPlateau") compare_plateau(job, state, changes);
  const Comparison comparison(job, state, updates);
  for (size_t g = 0; g < groups && changes.empty(); ++g) {
    if (auto change = comparison.of_group(g)) changes.push_back(std::move(*change));
  }
  if (const std::string limitation = comparison.limitation(); !limitation.empty()) {
    notes.push_back(text("{}: only its current rate was compared with the recipe's", limitation));
  }
  return changes;
}

}  // namespace accel
