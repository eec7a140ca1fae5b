#include "checkpoint/torch_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "checkpoint/tensors.h"
#include "core/base/text.h"

namespace accel {
namespace {

using Curve = TorchSchedule::Curve;

/// Levels of nested schedulers; PyTorch's classes nest once.
constexpr int kMaxDepth = 4;
/// Limit of milestones, phases and schedulers, for the cost of a curve.
constexpr size_t kMaxPhases = 1000;

void check_length(size_t count, const char* key) {
  if (count > kMaxPhases)
    throw FormatError(text("'{}' has {} items, at most {} wanted", key, count, kMaxPhases));
}

double number_at(const Value& state, const char* key) {
  const Value* value = state.find(key);
  const std::optional<double> number = value ? number_in(*value) : std::nullopt;
  if (!number || !std::isfinite(*number)) {
    throw FormatError(text("'{}' is not a number", key));
  }
  return *number;
}

double positive_at(const Value& state, const char* key) {
  const double number = number_at(state, key);
  if (number <= 0) throw FormatError(text("'{}' is not above 0", key));
  return number;
}

double half_wave(double from, double to, double done) {
  return to + (from - to) * (1 + std::cos(std::numbers::pi * done)) / 2;
}

Curve cosine(const Value& state) {
  const double length = positive_at(state, "T_max"), floor = number_at(state, "eta_min");
  return [=](const GroupRates& group, double step) {
    return half_wave(group.initial, floor, step / length);
  };
}

Curve warm_restarts(const Value& state) {
  const double first = positive_at(state, "T_0"), floor = number_at(state, "eta_min");
  const double factor = positive_at(state, "T_mult");
  if (std::floor(first) != first || std::floor(factor) != factor) {
    throw FormatError("'T_0' or 'T_mult' is not an integer");
  }
  return [=](const GroupRates& group, double step) {
    double length = first;
    if (factor == 1) step = std::fmod(step, first);
    for (; step >= length; length *= factor) step -= length;
    return half_wave(group.initial, floor, step / length);
  };
}

Curve step_wise(const Value& state) {
  const double every = positive_at(state, "step_size"), gamma = number_at(state, "gamma");
  return [=](const GroupRates& group, double step) {
    return group.initial * std::pow(gamma, std::floor(step / every));
  };
}

/// `milestones` is a Counter: the number of drops at each milestone.
Curve multistep(const Value& state) {
  const Value* counter = state.find("milestones");
  if (const auto* call = counter->as<Value::Call>(); call && call->arguments.size() == 1) {
    counter = &call->arguments[0];
  }
  std::vector<std::pair<double, double>> drops;
  for (const auto& [step, times] : dict_in(counter, "milestones").items) {
    const auto milestone = number_in(step), count = number_in(times);
    if (!milestone || !count) throw FormatError("'milestones' is not a dict of numbers");
    drops.emplace_back(*milestone, *count);
  }
  check_length(drops.size(), "milestones");
  const double gamma = number_at(state, "gamma");
  return [=](const GroupRates& group, double step) {
    double made = 0;
    for (const auto& [milestone, count] : drops) made += milestone <= step ? count : 0;
    return group.initial * std::pow(gamma, made);
  };
}

Curve exponential(const Value& state) {
  const double gamma = number_at(state, "gamma");
  return
      [=](const GroupRates& group, double step) { return group.initial * std::pow(gamma, step); };
}

Curve polynomial(const Value& state) {
  const double length = positive_at(state, "total_iters"), power = number_at(state, "power");
  return [=](const GroupRates& group, double step) {
    return group.initial * std::pow(1 - std::min(step, length) / length, power);
  };
}

Curve linear(const Value& state) {
  const double length = positive_at(state, "total_iters");
  const double start = number_at(state, "start_factor"), end = number_at(state, "end_factor");
  return [=](const GroupRates& group, double step) {
    return group.initial * (start + (end - start) * std::min(step, length) / length);
  };
}

Curve constant(const Value& state) {
  const double length = number_at(state, "total_iters"), factor = number_at(state, "factor");
  return [=](const GroupRates& group, double step) {
    return step < length ? group.initial * factor : group.initial;
  };
}

double rate_named(const GroupRates& group, const std::string& name) {
  if (name == "max_lr") return group.max;
  return name == "min_lr" ? group.min : group.initial;
}

Curve one_cycle(const Value& state) {
  struct Phase {
    double end;
    std::string from, to;
  };
  std::vector<Phase> phases;
  for (const Value& phase : items_of(state.find("_schedule_phases"), "_schedule_phases")) {
    const Value *from = phase.find("start_lr"), *to = phase.find("end_lr");
    if (!from || !to || !from->as<std::string>() || !to->as<std::string>()) {
      throw FormatError("a phase of '_schedule_phases' has no 'start_lr' or 'end_lr'");
    }
    phases.push_back(
        {number_at(phase, "end_step"), *from->as<std::string>(), *to->as<std::string>()});
  }
  if (phases.empty()) throw FormatError("'_schedule_phases' is empty");
  check_length(phases.size(), "_schedule_phases");
  const Value* anneal = state.find("_anneal_func_type");
  const bool straight =
      anneal && anneal->as<std::string>() && *anneal->as<std::string>() == "linear";
  return [phases, straight](const GroupRates& group, double step) {
    double start = 0;
    size_t now = 0;
    for (; now + 1 < phases.size() && step > phases[now].end; ++now) start = phases[now].end;
    const double from = rate_named(group, phases[now].from), to = rate_named(group, phases[now].to);
    const double done = (step - start) / (phases[now].end - start);
    return straight ? from + (to - from) * done : half_wave(from, to, done);
  };
}

struct KnownScheduler {
  const char* key;  ///< a field of this class and at most of classes after it in the list
  const char* type;
  Curve (*curve)(const Value& state);
};

/// LambdaLR is last: every scheduler has `lr_lambdas` after loading a file of accel-run.
constexpr KnownScheduler kKnown[] = {{"total_size", "CyclicLR", nullptr},
                                     {"_schedule_phases", "OneCycleLR", &one_cycle},
                                     {"num_bad_epochs", "ReduceLROnPlateau", nullptr},
                                     {"T_0", "CosineAnnealingWarmRestarts", &warm_restarts},
                                     {"T_max", "CosineAnnealingLR", &cosine},
                                     {"milestones", "MultiStepLR", &multistep},
                                     {"step_size", "StepLR", &step_wise},
                                     {"power", "PolynomialLR", &polynomial},
                                     {"start_factor", "LinearLR", &linear},
                                     {"factor", "ConstantLR", &constant},
                                     {"gamma", "ExponentialLR", &exponential},
                                     {"lr_lambdas", "LambdaLR", nullptr}};

TorchSchedule read_nested(const Value& value, int depth);

/// Each scheduler counts from the milestone before it. Empty when one of them has no curve.
Curve sequential(const Value& state, int depth) {
  if (depth >= kMaxDepth) throw FormatError("schedulers are nested too deeply");
  std::vector<Curve> curves;
  for (const Value& scheduler : items_of(state.find("_schedulers"), "_schedulers")) {
    curves.push_back(read_nested(scheduler, depth + 1).curve);
    if (!curves.back()) return {};
  }
  const std::vector<double> milestones = numbers_in(state.find("_milestones"), "_milestones");
  check_length(milestones.size(), "_milestones");
  if (curves.size() != milestones.size() + 1) {
    throw FormatError(
        text("there are {} schedulers for {} milestones", curves.size(), milestones.size()));
  }
  return [curves, milestones](const GroupRates& group, double step) {
    size_t now = 0;
    while (now < milestones.size() && milestones[now] <= step) ++now;
    return curves[now](group, now ? step - milestones[now - 1] : step);
  };
}

TorchSchedule read_nested(const Value& value, int depth) {
  TorchSchedule out;
  if (value.find("_schedulers") && value.find("_milestones")) {
    out.type = "SequentialLR";
    out.curve = sequential(value, depth);
    return out;
  }
  for (const KnownScheduler& known : kKnown) {
    if (!value.find(known.key)) continue;
    out.type = known.type;
    if (known.curve) out.curve = known.curve(value);
    out.unsupported = out.type == std::string("CyclicLR");
    return out;
  }
  out.type = "an unknown scheduler";
  out.unsupported = true;
  return out;
}

}  // namespace

TorchSchedule read_torch_schedule(const Value& value) {
  // ChainedScheduler: all schedulers step together, so the first one has the step count.
  if (value.find("_schedulers") && !value.find("_milestones") && !value.find("last_epoch")) {
    const std::vector<Value>& schedulers = items_of(value.find("_schedulers"), "_schedulers");
    if (schedulers.empty() || schedulers.front().find("_schedulers")) {
      throw FormatError("'_schedulers' is not a list of schedulers");
    }
    TorchSchedule out = read_torch_schedule(schedulers.front());
    out.type = "ChainedScheduler";
    out.curve = nullptr;
    out.unsupported = true;
    return out;
  }
  TorchSchedule out = read_nested(value, 0);
  const double steps = number_at(value, "last_epoch");
  if (steps < 0 || steps > kMostSteps) throw FormatError("'last_epoch' is not a step count");
  out.steps = static_cast<int64_t>(steps);
  if (const Value* base = value.find("base_lrs")) out.base_lrs = numbers_in(base, "base_lrs");
  if (const Value* last = value.find("_last_lr")) out.last_lrs = numbers_in(last, "_last_lr");
  const Value* cycles = value.find("cycle_momentum");
  out.cycles_momentum = cycles && number_in(*cycles).value_or(0) != 0;
  return out;
}

TorchSchedule join_schedules(const std::vector<TorchSchedule>& schedules) {
  TorchSchedule out = schedules.front();
  for (size_t i = 1; i < schedules.size(); ++i) {
    const TorchSchedule& next = schedules[i];
    out.base_lrs.insert(out.base_lrs.end(), next.base_lrs.begin(), next.base_lrs.end());
    out.last_lrs.insert(out.last_lrs.end(), next.last_lrs.begin(), next.last_lrs.end());
    out.cycles_momentum = out.cycles_momentum || next.cycles_momentum;
  }
  return out;
}

}  // namespace accel
