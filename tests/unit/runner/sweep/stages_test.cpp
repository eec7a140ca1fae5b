#include "runner/sweep/trials.h"

#include <gtest/gtest.h>

#include "tests/unit/runner/sweep/sweep_text.h"

namespace accel::stages_test {
namespace {

using Numbers = std::vector<size_t>;

SweepOptions halving() {
  return sweep_of(
      "recipe: a.yaml\n"
      "grid: {seed: [1, 2, 3, 4]}\n"
      "stages:\n"
      "  - until: 10 steps\n"
      "  - {until: 20 steps, promote: {keep: 2, metric: eval/accuracy, mode: max}}\n"
      "  - {until: 40 steps, promote: {keep: 1}}\n");
}

StageResult result(size_t trial, size_t stage, double accuracy, double loss = 1) {
  return {.trial = trial,
          .stage = stage,
          .failed = false,
          .code = 0,
          .step = 10,
          .values = {{"eval/accuracy", accuracy}, {"eval/loss", loss}}};
}

TEST(StagesTest, TheBestOfAStageGoOn) {
  SweepProgress progress(halving(), 4);
  EXPECT_EQ(progress.waiting(), (Numbers{0, 1, 2, 3}));
  progress.add(result(2, 0, 0.9));
  progress.add(result(0, 0, 0.5));
  progress.add(result(1, 0, 0.8));
  EXPECT_EQ(progress.stage(), 0u);
  EXPECT_EQ(progress.waiting(), Numbers{3});
  progress.add(result(3, 0, 0.1));
  EXPECT_EQ(progress.stage(), 1u);
  EXPECT_EQ(progress.waiting(), (Numbers{2, 1}));
  progress.add(result(2, 1, 0.9, 0.4));
  progress.add(result(1, 1, 0.8, 0.3));
  EXPECT_EQ(progress.stage(), 2u);
  EXPECT_EQ(progress.waiting(), Numbers{1});  // by the ranking: less loss
  progress.add(result(1, 2, 0.8, 0.2));
  EXPECT_EQ(progress.stage(), 3u);
  EXPECT_EQ(progress.waiting(), Numbers{});
  EXPECT_EQ(progress.ranking(), (Numbers{1, 2, 0, 3}));
  EXPECT_FALSE(progress.any_failed());
}

TEST(StagesTest, EqualValuesGoByTheTrialsOrder) {
  SweepProgress progress(halving(), 4);
  for (const size_t trial : {3u, 1u, 0u, 2u}) progress.add(result(trial, 0, 0.5));
  EXPECT_EQ(progress.waiting(), (Numbers{0, 1}));
}

TEST(StagesTest, WhoFailedOrHasNoValueIsNotPromoted) {
  SweepProgress progress(halving(), 4);
  StageResult failed = result(0, 0, 0.99);
  failed.failed = true;
  failed.code = 7;
  progress.add(failed);
  progress.add({.trial = 1, .stage = 0, .failed = false, .step = 10});
  progress.add(result(2, 0, 0.2));
  progress.add(result(3, 0, 0.3));
  EXPECT_EQ(progress.waiting(), (Numbers{3, 2}));
  EXPECT_TRUE(progress.any_failed());
  EXPECT_EQ(progress.ranking(), (Numbers{2, 3, 1, 0}));  // by the loss, which is the same
  EXPECT_EQ(progress.newest(0)->code, 7);
  progress.add(result(0, 0, 0.99));  // tried again
  EXPECT_FALSE(progress.any_failed());
  EXPECT_EQ(progress.waiting(), (Numbers{0, 3}));
}

TEST(StagesTest, WhoMissesWhatIsExpectedIsBehindWhoDoesNot) {
  SweepProgress progress(sweep_of("recipe: a.yaml\ngrid: {seed: [1, 2, 3, 4]}\n"), 4);
  for (const size_t trial : {0u, 1u, 2u, 3u}) {
    StageResult ended = result(trial, 0, 0.5, 0.1 * static_cast<double>(trial));
    ended.code = trial < 2 ? 1 : 0;
    ended.failed = trial == 3;
    progress.add(ended);
  }
  EXPECT_EQ(progress.ranking(), (Numbers{2, 0, 1, 3}));
  EXPECT_TRUE(progress.any_missed());
  EXPECT_TRUE(progress.newest(0)->missed());
  EXPECT_FALSE(progress.newest(2)->missed());
  StageResult both = result(0, 0, 0.5);
  both.failed = true;
  both.code = 1;
  EXPECT_FALSE(both.missed()) << "what failed has not come to its end";
}

TEST(StagesTest, WhoIsEliminatedIsBehindAllWhoFinish) {
  SweepProgress progress(halving(), 4);
  for (const size_t trial : {0u, 1u, 2u, 3u}) {
    progress.add(result(trial, 0, 0.1 * static_cast<double>(trial + 1), 0.9));
  }
  for (const size_t trial : progress.entrants(1)) progress.add(result(trial, 1, 0.5, 0.4));
  const size_t finalist = progress.entrants(2).front();
  StageResult last = result(finalist, 2, 0.5, 3);  // a larger loss than that of the others
  last.code = 1;                                   // and it misses what is expected
  progress.add(last);
  EXPECT_EQ(progress.ranking().front(), finalist);
}

TEST(StagesTest, WhoMissesWhatIsExpectedIsNotPromoted) {
  SweepProgress progress(halving(), 2);
  StageResult missed = result(0, 0, 0.9);
  missed.code = 1;
  progress.add(missed);
  progress.add(result(1, 0, 0.1));
  EXPECT_EQ(progress.waiting(), Numbers{1});
}

TEST(StagesTest, ThereMayBeFewerThanAreKept) {
  SweepProgress progress(halving(), 2);
  StageResult failed = result(0, 0, 0.99);
  failed.failed = true;
  progress.add(failed);
  progress.add(result(1, 0, 0.1));
  EXPECT_EQ(progress.waiting(), Numbers{1});
}

TEST(StagesTest, WhenAllFailThereIsNothingLeft) {
  SweepProgress progress(halving(), 2);
  progress.add({.trial = 0, .stage = 0, .failed = true});
  progress.add({.trial = 1, .stage = 0, .failed = true});
  EXPECT_EQ(progress.stage(), progress.stages());
  EXPECT_EQ(progress.waiting(), Numbers{});
}

TEST(StagesTest, WithoutStagesThereIsOne) {
  SweepProgress progress(sweep_of("recipe: a.yaml\ngrid: {seed: [1, 2]}\n"), 2);
  EXPECT_EQ(progress.stages(), 1u);
  EXPECT_EQ(progress.newest(0), nullptr);
  progress.add(result(0, 0, 0.1, 0.5));
  EXPECT_EQ(progress.waiting(), Numbers{1});
  progress.add(result(1, 0, 0.1, 0.4));
  EXPECT_EQ(progress.stage(), 1u);
  EXPECT_EQ(progress.ranking(), (Numbers{1, 0}));
}

TEST(StagesTest, AStageWithoutPromotionIsForAll) {
  SweepProgress progress(
      sweep_of("recipe: a.yaml\ngrid: {seed: [1, 2]}\nstages: [{until: 5 steps}, {until: 9}]\n"),
      2);
  progress.add({.trial = 0, .stage = 0});  // no value is needed
  progress.add(result(1, 0, 0.5));
  EXPECT_EQ(progress.waiting(), (Numbers{1, 0}));
}

}  // namespace
}  // namespace accel::stages_test
