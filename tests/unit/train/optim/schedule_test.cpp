// Phases, warm-up and what schedules refuse.
#include "core/api/schedule.h"

#include <gtest/gtest.h>

#include "core/api/batch.h"
#include "tests/unit/build_component.h"
#include "train/optim/phased_schedule.h"

namespace accel::schedule_test {
namespace {

ScheduleContext steps(int64_t total) {
  ScheduleContext context;
  context.total_steps = total;
  context.steps_per_epoch = 10;
  return context;
}

PhasePlan phase(const std::string& yaml, std::optional<Duration> length = std::nullopt) {
  Registry registry;
  Registration::enter_all(registry);
  Diagnostics problems;
  Reading reading{problems, registry};
  Ref<Schedule> ref = registry.of<Schedule>().prepare(parse_recipe("r.yaml", yaml), reading);
  problems.check();
  return {std::move(ref), length};
}

constexpr Duration kTenPercent = {10, Duration::Unit::kPercent};
constexpr Duration kTwentySteps = {20, Duration::Unit::kSteps};

TEST(ScheduleTest, TheLastPhaseFillsTheRest) {
  const auto schedule = make_schedule(
      {phase("{type: linear, from: 0, to: 1}", kTenPercent), phase("{type: linear}")}, steps(100));
  EXPECT_EQ(schedule->lr(2, 0), 0);
  EXPECT_EQ(schedule->lr(2, 5), 1);
  EXPECT_EQ(schedule->lr(2, 10), 2);
  EXPECT_EQ(schedule->lr(2, 55), 1);
  EXPECT_EQ(schedule->lr(2, 100), 0);
}

TEST(ScheduleTest, PercentWithinAPhaseIsOfThePhase) {
  const auto schedule = make_schedule(
      {phase("{type: constant, warmup: 50%}", kTwentySteps), phase("constant")}, steps(100));
  EXPECT_EQ(schedule->lr(1, 5), 0.5);
  EXPECT_EQ(schedule->lr(1, 10), 1);
}

TEST(ScheduleTest, PhasesGoOnWhenOnlyTimeBoundsTheRun) {
  const auto schedule = make_schedule({phase("linear", kTwentySteps), phase("constant")}, steps(0));
  EXPECT_EQ(schedule->lr(1, 10), 0.5);
  EXPECT_EQ(schedule->lr(1, 1000), 1);
}

TEST(ScheduleTest, CurvesEndAtMilestones) {
  const auto milestones = [](const std::string& yaml) {
    return build<Schedule>(yaml, steps(100))->milestones();
  };
  EXPECT_EQ(milestones("cosine"), std::vector<int64_t>{});
  EXPECT_EQ(milestones("{type: cosine, warmup: 7 steps}"), std::vector<int64_t>{7});
  const auto phases = make_schedule(
      {phase("constant", kTenPercent), phase("cosine", kTwentySteps), phase("constant")},
      steps(100));
  EXPECT_EQ(phases->milestones(), (std::vector<int64_t>{10, 30}));
}

TEST(ScheduleTest, OneCycleKeepsItsTurnsInTheGroups) {
  const auto cycle = build<Schedule>("one_cycle", steps(40));
  EXPECT_EQ(cycle->group_rates(5), (std::map<std::string, double>{
                                       {"initial_lr", 0.2}, {"max_lr", 5}, {"min_lr", 0.2 / 1e4}}));
  EXPECT_TRUE(build<Schedule>("linear", steps(40))->group_rates(5).empty());
}

TEST(ScheduleTest, RatesHoldAfterTheEnd) {
  for (const char* yaml : {"linear", "cosine", "polynomial", "wsd"}) {
    const auto schedule = build<Schedule>(yaml, steps(40));
    EXPECT_NEAR(schedule->lr(1, 40), 0, 1e-15) << yaml;
    EXPECT_EQ(schedule->lr(1, 4000), schedule->lr(1, 40)) << yaml;
  }
  const auto one_cycle = build<Schedule>("one_cycle", steps(40));
  EXPECT_EQ(one_cycle->lr(1, 4000), one_cycle->lr(1, 39));
}

TEST(ScheduleTest, TheStateOfAPhaseSurvives) {
  const std::vector<PhasePlan> phases = {phase("constant", kTwentySteps),
                                         phase("{type: plateau, patience: 0}")};
  const auto schedule = make_schedule(phases, steps(100));
  EXPECT_EQ(schedule->watches(), "eval/loss");
  for (int i = 0; i < 3; ++i) schedule->observe({{"eval/loss", 1.0}});
  StateDict state;
  schedule->save(state);
  const auto other = make_schedule(phases, steps(100));
  other->load(state);
  EXPECT_EQ(schedule->lr(1, 50), other->lr(1, 50));
  EXPECT_LT(other->lr(1, 50), 0.02);
}

std::string phases_complaint(const std::vector<PhasePlan>& phases, int64_t total) {
  try {
    make_schedule(phases, steps(total));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kRecipe);
    return std::string(error.what()) + "; " + error.hint();
  }
  return "";
}

TEST(ScheduleTest, PhasesThatDoNotFitAreNumbered) {
  const PhasePlan open = phase("constant"), closed = phase("constant", kTwentySteps);
  EXPECT_EQ(phases_complaint({}, 100), "'scheduler' has no phase; ");
  EXPECT_EQ(phases_complaint({open, open}, 100),
            "phase 1 of 'scheduler' has no end; add 'for': only the last phase may leave it out");
  EXPECT_EQ(phases_complaint({closed, closed}, 30),
            "phase 2 of 'scheduler' ends after the run, which has 30 steps; shorten its 'for', or "
            "leave it out of the last phase");
  EXPECT_EQ(phases_complaint({closed, open}, 20),
            "phase 2 of 'scheduler' has no step left; shorten the ones before it");
  EXPECT_EQ(phases_complaint({phase("constant", Duration{0, Duration::Unit::kPercent}), open}, 20),
            "phase 1 of 'scheduler' is shorter than a step; lengthen its 'for'");
  EXPECT_EQ(phases_complaint({phase("constant", Duration{60, Duration::Unit::kSeconds}), open}, 20),
            "'for': '1 min' is not a number of steps in this run; give it in steps, epochs or "
            "samples");
}

TEST(ScheduleTest, WhatCannotBeScheduledIsSaid) {
  EXPECT_EQ(complaint<Schedule>("cosine", steps(0)),
            "the schedule 'cosine' needs a number of steps, but only time bounds the run");
  EXPECT_EQ(complaint<Schedule>("{type: constant, warmup: 1 h}", steps(40)),
            "'warmup': '1 h' is not a number of steps in this run");
  EXPECT_EQ(complaint<Schedule>("{type: wsd, warmup: 60%, decay: 50%}", steps(40)),
            "'warmup' and 'decay' together are longer than the run");
  EXPECT_EQ(complaint<Schedule>("multistep", steps(40)),
            "recipe.yaml:1:1: error: 'milestones' is missing\n"
            "    multistep\n"
            "    ^\n"
            "  hint: add 'milestones': Times of the decays, such as [50%, 75%], counted from the "
            "start.\n");
}

TEST(ScheduleTest, PlateauNamesTheMetricThatIsMissing) {
  const auto schedule = build<Schedule>("{type: plateau, metric: eval/los}", steps(40));
  try {
    schedule->observe({{"eval/loss", 1.0}});
    FAIL();
  } catch (const Error& error) {
    EXPECT_STREQ(
        error.what(),
        "the schedule 'plateau' monitors 'eval/los', which the evaluation does not report");
    EXPECT_EQ(error.hint(), "did you mean 'eval/loss'?");
  }
}

TEST(ScheduleTest, PlateauRefusesAnIncompleteState) {
  const auto schedule = build<Schedule>("plateau", steps(40));
  try {
    schedule->load({});
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_STREQ(error.what(), "the state of the schedule 'plateau' has no 'best'");
  }
}

}  // namespace
}  // namespace accel::schedule_test
