// The curves of PyTorch's schedulers, from what their state_dicts hold.
#include "checkpoint/torch_schedule.h"

#include <gtest/gtest.h>

#include <cmath>
#include <numbers>

#include "checkpoint/accelerate_files.h"
#include "core/base/format_error.h"

namespace accel::torch_schedule_test {
namespace {

using Items = std::vector<std::pair<Value, Value>>;

Value list(std::vector<Value> items) {
  return Value::List{std::move(items)};
}

Value dict(Items items) {
  return Value::Dict{std::move(items)};
}

/// What every scheduler keeps, and the rest.
Value state_with(Items items) {
  items.emplace_back("last_epoch", 3);
  items.emplace_back("base_lrs", list({0.5}));
  items.emplace_back("_last_lr", list({0.25}));
  return dict(std::move(items));
}

constexpr GroupRates kGroup = {0.5, 1.0, 0.001};

/// "TYPE: rate rate ..." at some steps.
std::string curve_text(const Value& value, const std::vector<double>& steps) {
  const TorchSchedule schedule = read_torch_schedule(value);
  std::string out = schedule.type + ":";
  if (!schedule.curve) return out + " not read";
  for (const double step : steps) {
    char text[32];
    std::snprintf(text, sizeof text, " %.6g", schedule.curve(kGroup, step));
    out += text;
  }
  return out;
}

std::string complaint(const Value& value) {
  try {
    read_torch_schedule(value);
    return "";
  } catch (const FormatError& error) {
    return error.what();
  }
}

const Value kCosine = dict({{"T_max", 4}, {"eta_min", 0.1}});
const Value kLinear = dict({{"start_factor", 0.5}, {"end_factor", 1.0}, {"total_iters", 2}});

TEST(TorchScheduleTest, WhatEachKeepsIsRead) {
  const TorchSchedule schedule = read_torch_schedule(state_with({{"gamma", 0.5}}));
  EXPECT_EQ(schedule.type, "ExponentialLR");
  EXPECT_EQ(schedule.steps, 3);
  EXPECT_EQ(schedule.base_lrs, std::vector<double>{0.5});
  EXPECT_EQ(schedule.last_lrs, std::vector<double>{0.25});
  EXPECT_FALSE(schedule.cycles_momentum);
  EXPECT_TRUE(read_torch_schedule(state_with({{"cycle_momentum", true}})).cycles_momentum);
}

TEST(TorchScheduleTest, EveryClassHasItsCurve) {
  const auto text = [](Items items, const std::vector<double>& steps) {
    return curve_text(state_with(std::move(items)), steps);
  };
  EXPECT_EQ(text({{"gamma", 0.5}}, {0, 1, 3}), "ExponentialLR: 0.5 0.25 0.0625");
  EXPECT_EQ(text({{"step_size", 2}, {"gamma", 0.5}}, {0, 1, 2, 5}), "StepLR: 0.5 0.5 0.25 0.125");
  EXPECT_EQ(text({{"T_max", 4}, {"eta_min", 0.1}}, {0, 2, 4}), "CosineAnnealingLR: 0.5 0.3 0.1");
  EXPECT_EQ(text({{"power", 2}, {"total_iters", 4}}, {0, 2, 9}), "PolynomialLR: 0.5 0.125 0");
  EXPECT_EQ(text({{"start_factor", 0.5}, {"end_factor", 1}, {"total_iters", 2}}, {0, 1, 9}),
            "LinearLR: 0.25 0.375 0.5");
  EXPECT_EQ(text({{"factor", 0.5}, {"total_iters", 2}}, {0, 1, 2}), "ConstantLR: 0.25 0.25 0.5");
  EXPECT_EQ(text({{"T_0", 2}, {"T_mult", 2}, {"eta_min", 0}}, {0, 1, 2, 4, 6}),
            "CosineAnnealingWarmRestarts: 0.5 0.25 0.5 0.25 0.5");
  EXPECT_EQ(text({{"T_0", 2}, {"T_mult", 1}, {"eta_min", 0}}, {1, 3, 4}),
            "CosineAnnealingWarmRestarts: 0.25 0.25 0.5");
}

TEST(TorchScheduleTest, MilestonesAreACounter) {
  const Value counter = Value::Call{{"collections", "Counter"}, {dict({{4, 1}, {2, 2}})}};
  EXPECT_EQ(curve_text(state_with({{"milestones", counter}, {"gamma", 0.5}}), {1, 2, 4}),
            "MultiStepLR: 0.5 0.125 0.0625");
}

TEST(TorchScheduleTest, AOneCycleTurnsAtItsGroupsOwnRates) {
  const auto phase = [](double end, const char* from, const char* to) {
    return dict({{"end_step", end}, {"start_lr", from}, {"end_lr", to}});
  };
  const Value phases = list({phase(2, "initial_lr", "max_lr"), phase(6, "max_lr", "min_lr")});
  EXPECT_EQ(curve_text(state_with({{"_schedule_phases", phases}, {"_anneal_func_type", "linear"}}),
                       {0, 1, 2, 4, 6}),
            "OneCycleLR: 0.5 0.75 1 0.5005 0.001");
  EXPECT_EQ(curve_text(state_with({{"_schedule_phases", phases}, {"_anneal_func_type", "cos"}}),
                       {0, 1, 2}),
            "OneCycleLR: 0.5 0.75 1");
}

TEST(TorchScheduleTest, PartsOfASequenceCountFromTheirOwnStart) {
  EXPECT_EQ(curve_text(
                state_with({{"_schedulers", list({kLinear, kCosine})}, {"_milestones", list({2})}}),
                {0, 1, 2, 4, 6}),
            "SequentialLR: 0.25 0.375 0.5 0.3 0.1");
  const Value lambda = dict({{"lr_lambdas", list({Value()})}});
  EXPECT_EQ(
      curve_text(state_with({{"_schedulers", list({kLinear, lambda})}, {"_milestones", list({2})}}),
                 {}),
      "SequentialLR: not read");
}

TEST(TorchScheduleTest, OthersTellNoCurve) {
  EXPECT_EQ(curve_text(state_with({{"lr_lambdas", list({Value()})}}), {}), "LambdaLR: not read");
  EXPECT_EQ(curve_text(state_with({{"num_bad_epochs", 1}, {"factor", 0.1}}), {}),
            "ReduceLROnPlateau: not read");
  EXPECT_EQ(curve_text(state_with({{"total_size", 4}, {"gamma", 1}}), {}), "CyclicLR: not read");
  EXPECT_EQ(curve_text(state_with({}), {}), "an unknown scheduler: not read");
  EXPECT_TRUE(read_torch_schedule(state_with({})).unsupported);
  EXPECT_TRUE(read_torch_schedule(state_with({{"total_size", 4}})).unsupported);
  EXPECT_FALSE(read_torch_schedule(state_with({{"lr_lambdas", list({Value()})}})).unsupported);
}

TEST(TorchScheduleTest, ChainedSchedulersStepTogether) {
  const Value chained = dict({{"_schedulers", list({state_with({{"gamma", 0.5}}), kLinear})}});
  const TorchSchedule schedule = read_torch_schedule(chained);
  EXPECT_EQ(schedule.type, "ChainedScheduler");
  EXPECT_EQ(schedule.steps, 3);
  EXPECT_TRUE(schedule.unsupported);
  EXPECT_FALSE(schedule.curve);
  EXPECT_EQ(complaint(dict({{"_schedulers", list({})}})),
            "'_schedulers' is not a list of schedulers");
  EXPECT_EQ(complaint(dict({{"_schedulers", list({chained})}})),
            "'_schedulers' is not a list of schedulers");
}

TEST(TorchScheduleTest, OneThatLoadedAFileOfOursIsStillTold) {
  // It keeps what it does not know: ours is a LambdaLR's.
  EXPECT_EQ(curve_text(
                state_with({{"lr_lambdas", list({Value()})}, {"T_max", 4}, {"eta_min", 0.1}}), {4}),
            "CosineAnnealingLR: 0.1");
}

TEST(TorchScheduleTest, NumbersThatCannotBeAreRefused) {
  const double infinite = std::numeric_limits<double>::infinity();
  EXPECT_EQ(complaint(dict({})), "'last_epoch' is not a number");
  EXPECT_EQ(complaint(dict({{"last_epoch", -1}})), "'last_epoch' is not a step count");
  EXPECT_EQ(complaint(dict({{"last_epoch", 1e18}})), "'last_epoch' is not a step count");
  EXPECT_EQ(complaint(state_with({{"gamma", "x"}})), "'gamma' is not a number");
  EXPECT_EQ(complaint(state_with({{"gamma", infinite}})), "'gamma' is not a number");
  EXPECT_EQ(complaint(state_with({{"T_max", 0}, {"eta_min", 0}})), "'T_max' is not above 0");
  EXPECT_EQ(complaint(state_with({{"T_0", 2}, {"T_mult", 1.01}, {"eta_min", 0}})),
            "'T_0' or 'T_mult' is not an integer");
  EXPECT_EQ(complaint(state_with({{"milestones", 3}, {"gamma", 1}})), "'milestones' is not a dict");
  EXPECT_EQ(complaint(state_with({{"milestones", dict({{"a", 1}})}, {"gamma", 1}})),
            "'milestones' is not a dict of numbers");
  EXPECT_EQ(complaint(state_with({{"_schedule_phases", list({})}})), "'_schedule_phases' is empty");
  EXPECT_EQ(complaint(state_with({{"_schedule_phases", list({dict({{"end_step", 1}})})}})),
            "a phase of '_schedule_phases' has no 'start_lr' or 'end_lr'");
  EXPECT_EQ(complaint(state_with({{"_schedulers", list({kLinear})}, {"_milestones", list({2})}})),
            "there are 1 schedulers for 1 milestones");
}

TEST(TorchScheduleTest, WhatWouldTakeForeverIsRefused) {
  Value nested = kCosine;
  for (int i = 0; i < 6; ++i) {
    nested = dict({{"_schedulers", list({nested})}, {"_milestones", list({})}});
  }
  EXPECT_EQ(complaint(nested), "schedulers are nested too deeply");
  std::vector<Value> many(1001, Value(1));
  EXPECT_EQ(complaint(state_with({{"_schedulers", list(std::vector<Value>(1002, kCosine))},
                                  {"_milestones", list(many)}})),
            "'_milestones' has 1001 items, at most 1000 wanted");
}

/// The numbers of one part of a SequentialLR: its own last_epoch.
std::vector<double> parts_at(int64_t updates) {
  TrainState state;
  state.base_lrs = state.lrs = {0.1};
  state.curves = {0, 5, 12};
  state.updates = updates;
  std::vector<double> out;
  const Value value = scheduler_value(state);
  for (const Value& part : value.find("_schedulers")->as<Value::List>()->items) {
    out.push_back(static_cast<double>(*part.find("last_epoch")->as<int64_t>()));
  }
  out.push_back(static_cast<double>(*value.find("T_cur")->as<int64_t>()));
  out.push_back(static_cast<double>(*value.find("T_i")->as<int64_t>()));
  return out;
}

TEST(SchedulerFileTest, ASequentialSchedulerFindsItsParts) {
  EXPECT_EQ(parts_at(0), (std::vector<double>{0, 0, 0, 5}));
  EXPECT_EQ(parts_at(4), (std::vector<double>{4, 0, 4, 5}));
  EXPECT_EQ(parts_at(5), (std::vector<double>{4, 0, 0, 7}));
  EXPECT_EQ(parts_at(9), (std::vector<double>{4, 4, 4, 7}));
}

TEST(SchedulerFileTest, StepsThatFp16SkippedAreNotCounted) {
  TrainState state;
  state.progress.step = 7;
  EXPECT_EQ(*scheduler_value(state).find("last_epoch")->as<int64_t>(), 7);
  state.updates = 5;
  EXPECT_EQ(*scheduler_value(state).find("last_epoch")->as<int64_t>(), 5);
  EXPECT_EQ(*scheduler_value(state).find("_step_count")->as<int64_t>(), 6);
}

}  // namespace
}  // namespace accel::torch_schedule_test
