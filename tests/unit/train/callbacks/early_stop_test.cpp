#include <gtest/gtest.h>

#include "core/api/callback.h"
#include "tests/unit/build_component.h"
#include "train/callbacks/continuation.h"

namespace accel::early_stop_test {
namespace {

CallbackContext reported() {
  CallbackContext context;
  context.metrics = {"eval/loss", "eval/accuracy"};
  return context;
}

/// The number of evaluations after which it stops, or 0.
int stops_after(const std::string& yaml, const std::vector<double>& values) {
  const auto callback = build<Callback>(yaml, reported());
  for (size_t i = 0; i < values.size(); ++i) {
    callback->on_eval(0, {{"eval/loss", values[i]}, {"eval/accuracy", values[i]}});
    if (callback->stop()) return static_cast<int>(i) + 1;
  }
  return 0;
}

TEST(EarlyStopTest, StopsAfterPatienceEvaluationsWithoutProgress) {
  EXPECT_EQ(stops_after("{type: early_stop, patience: 2}", {3, 2, 2, 2, 1}), 4);
  EXPECT_EQ(stops_after("{type: early_stop, patience: 2}", {3, 2, 2, 1, 1}), 0);
}

TEST(EarlyStopTest, AutoKnowsWhichWayIsBetter) {
  EXPECT_EQ(stops_after("{type: early_stop, patience: 2}", {1, 2, 3}), 3);
  EXPECT_EQ(stops_after("{type: early_stop, patience: 2, metric: eval/accuracy}", {1, 2, 3}), 0);
  EXPECT_EQ(stops_after("{type: early_stop, patience: 2, mode: max}", {1, 2, 3}), 0);
}

TEST(EarlyStopTest, ChangesBelowMinDeltaAreNoProgress) {
  EXPECT_EQ(stops_after("{type: early_stop, patience: 2, min_delta: 0.5}", {3, 2.75, 2.5}), 3);
}

TEST(EarlyStopTest, SaysWhyItStops) {
  const auto callback = build<Callback>("{type: early_stop, patience: 1}", reported());
  callback->on_eval(10, {{"eval/loss", 0.5}});
  EXPECT_EQ(callback->stop(), std::nullopt);
  callback->on_eval(20, {{"eval/loss", 0.75}});
  EXPECT_EQ(callback->stop(), "'eval/loss' has not improved on 0.5 in 1 evaluation");
}

TEST(EarlyStopTest, AHigherPatienceContinuesTheRun) {
  const auto callback = build<Callback>("{type: early_stop, patience: 2}", reported());
  for (const int value : {1, 1, 1}) callback->on_eval(0, {{"eval/loss", value}});
  ASSERT_TRUE(callback->stop().has_value());
  EXPECT_EQ(dynamic_cast<const Continuation&>(*callback).change_to_continue(), "patience=4");
  StateDict state;
  callback->save(state);
  const auto next = build<Callback>("{type: early_stop, patience: 4}", reported());
  next->load(state);
  EXPECT_EQ(next->stop(), std::nullopt);
}

TEST(EarlyStopTest, AnUnknownMetricIsRefusedBeforeTraining) {
  const auto hint = [](const std::string& metric) -> std::string {
    try {
      build<Callback>("{type: early_stop, metric: " + metric + "}", reported());
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ExitCode::kRecipe);
      EXPECT_EQ(error.what(),
                "'early_stop' monitors '" + metric + "', which the evaluation does not report");
      return error.hint();
    }
    return "";
  };
  EXPECT_EQ(hint("eval/acuracy"), "did you mean 'eval/accuracy'?");
  EXPECT_EQ(hint("f1"), "it reports 'eval/loss', 'eval/accuracy'");
}

TEST(EarlyStopTest, CountsOnAfterAResume) {
  const auto first = build<Callback>("{type: early_stop, patience: 2}", reported());
  first->on_eval(0, {{"eval/loss", 1}});
  first->on_eval(1, {{"eval/loss", 2}});
  StateDict state;
  first->save(state);
  const auto second = build<Callback>("{type: early_stop, patience: 2}", reported());
  second->load(state);
  EXPECT_EQ(second->stop(), std::nullopt);
  second->on_eval(2, {{"eval/loss", 1.5}});
  EXPECT_TRUE(second->stop().has_value());
}

TEST(EarlyStopTest, AnIncompleteStateIsRefused) {
  const auto callback = build<Callback>("early_stop", reported());
  try {
    callback->load({});
    FAIL();
  } catch (const CheckpointError& error) {
    EXPECT_STREQ(error.what(), "the state of 'early_stop' has no 'best'");
  }
}

}  // namespace
}  // namespace accel::early_stop_test
