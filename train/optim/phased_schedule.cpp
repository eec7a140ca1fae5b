#include "train/optim/phased_schedule.h"

#include <string>

#include "core/api/batch.h"
#include "train/optim/schedules/warmed_schedule.h"

namespace accel {
namespace {

/// Each phase counts steps from its start.
class PhasedSchedule final : public Schedule {
 public:
  void add(int64_t start, std::unique_ptr<Schedule> schedule) {
    phases_.push_back({start, std::move(schedule)});
  }

  double lr(double base, int64_t step) const override {
    size_t now = phases_.size() - 1;
    while (now > 0 && step < phases_[now].start) --now;
    return phases_[now].schedule->lr(base, step - phases_[now].start);
  }

  std::vector<int64_t> milestones() const override {
    std::vector<int64_t> starts;
    for (size_t i = 1; i < phases_.size(); ++i) starts.push_back(phases_[i].start);
    return starts;
  }

  std::string watches() const override {
    for (const Phase& phase : phases_) {
      if (!phase.schedule->watches().empty()) return phase.schedule->watches();
    }
    return {};
  }

  void observe(const std::map<std::string, double>& results) override {
    for (Phase& phase : phases_) phase.schedule->observe(results);
  }

  void save(StateDict& state) const override {
    for (size_t i = 0; i < phases_.size(); ++i) {
      StateDict own;
      phases_[i].schedule->save(own);
      for (const auto& [name, number] : own.numbers) state.numbers[prefix(i) + name] = number;
    }
  }

  void load(const StateDict& state) override {
    for (size_t i = 0; i < phases_.size(); ++i) {
      StateDict own;
      for (const auto& [name, number] : state.numbers) {
        if (name.starts_with(prefix(i))) own.numbers[name.substr(prefix(i).size())] = number;
      }
      phases_[i].schedule->load(own);
    }
  }

 private:
  struct Phase {
    int64_t start;
    std::unique_ptr<Schedule> schedule;
  };

  static std::string prefix(size_t phase) { return "phase." + std::to_string(phase) + "."; }

  std::vector<Phase> phases_;
};

[[noreturn]] void refuse_phase(size_t phase, const std::string& what, const std::string& hint) {
  throw Error(ExitCode::kRecipe, "phase " + std::to_string(phase + 1) + " of 'scheduler' " + what,
              hint);
}

}  // namespace

std::unique_ptr<Schedule> make_schedule(const std::vector<PhasePlan>& phases,
                                        const ScheduleContext& context) {
  if (phases.empty()) throw Error(ExitCode::kRecipe, "'scheduler' has no phase");
  if (phases.size() == 1 && !phases[0].length) return phases[0].schedule.make(context);

  auto schedule = std::make_unique<PhasedSchedule>();
  int64_t start = 0;
  for (size_t i = 0; i < phases.size(); ++i) {
    ScheduleContext own = context;
    if (phases[i].length) {
      own.total_steps = steps_of("for", *phases[i].length, context);
      if (context.total_steps > 0 && start + own.total_steps > context.total_steps) {
        refuse_phase(
            i, "ends after the run, which has " + std::to_string(context.total_steps) + " steps",
            "shorten its 'for', or leave it out of the last phase");
      }
      if (own.total_steps < 1) refuse_phase(i, "is shorter than a step", "lengthen its 'for'");
    } else if (i + 1 < phases.size()) {
      refuse_phase(i, "has no end", "add 'for': only the last phase may leave it out");
    } else if (context.total_steps > 0) {
      own.total_steps = context.total_steps - start;
      if (own.total_steps < 1) refuse_phase(i, "has no step left", "shorten the ones before it");
    }
    schedule->add(start, phases[i].schedule.make(own));
    start += own.total_steps;
  }
  return schedule;
}

}  // namespace accel
