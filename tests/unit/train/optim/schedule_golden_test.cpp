// Every schedule against Python's, step by step.
#include <gtest/gtest.h>

#include <cmath>

#include "core/api/schedule.h"
#include "tests/unit/build_component.h"
#include "tests/unit/train/optim/golden.h"

namespace accel::schedule_golden_test {
namespace {

using Json = nlohmann::json;

/// Python multiplies step by step where we have a closed form, so the last bits differ.
constexpr double kTolerance = 1e-12;

const Json& golden() {
  static const Json json = read_golden("schedules.json");
  return json;
}

ScheduleContext run() {
  ScheduleContext context;
  context.total_steps = golden()["total_steps"];
  context.steps_per_epoch = golden()["steps_per_epoch"];
  return context;
}

void expect_rates(const Schedule& schedule, int64_t step, const Json& wanted,
                  const std::string& what) {
  for (size_t group = 0; group < wanted.size(); ++group) {
    const double base = golden()["bases"][group];
    const double rate = wanted[group];
    EXPECT_NEAR(schedule.lr(base, step), rate, kTolerance * base)
        << what << " group " << group << " step " << step;
  }
}

TEST(ScheduleGoldenTest, EveryStepIsPythons) {
  for (const Json& wanted : golden()["cases"]) {
    const std::string recipe = wanted["recipe"].dump();
    const auto schedule = build<Schedule>(recipe, run());
    for (size_t step = 0; step < wanted["rates"].size(); ++step) {
      expect_rates(*schedule, static_cast<int64_t>(step), wanted["rates"][step], recipe);
    }
  }
}

TEST(ScheduleGoldenTest, PlateauDropsWherePythonDoes) {
  for (const Json& wanted : golden()["plateaus"]) {
    const std::string recipe = wanted["recipe"].dump();
    auto schedule = build<Schedule>(recipe, run());
    for (size_t i = 0; i < golden()["metrics"].size(); ++i) {
      schedule->observe({{"eval/loss", golden()["metrics"][i].get<double>()}});
      expect_rates(*schedule, static_cast<int64_t>(i), wanted["rates"][i], recipe);
      StateDict state;  // going through a checkpoint changes nothing
      schedule->save(state);
      schedule = build<Schedule>(recipe, run());
      schedule->load(state);
    }
  }
}

TEST(ScheduleGoldenTest, EveryScheduleHasACase) {
  Registry registry;
  Registration::enter_all(registry);
  for (const std::string& name : registry.of<Schedule>().names()) {
    bool found = name == "plateau";
    for (const Json& wanted : golden()["cases"]) found = found || wanted["recipe"]["type"] == name;
    EXPECT_TRUE(found) << name;
  }
}

}  // namespace
}  // namespace accel::schedule_golden_test
