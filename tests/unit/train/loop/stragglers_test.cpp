#include "train/loop/stragglers.h"

#include <gtest/gtest.h>

namespace accel::stragglers_test {
namespace {

/// What is said after so many steps in which ranks computed for `seconds` each; it may only be said
/// in the last of them.
std::string reported(Stragglers& watch, const std::vector<double>& seconds,
                     int64_t steps = Stragglers::kSteps) {
  for (int64_t step = 1; step < steps; ++step) EXPECT_EQ(watch.add(seconds), std::nullopt) << step;
  return watch.add(seconds).value_or("nothing");
}

struct StragglerCase {
  std::vector<double> seconds;
  const char* line;
};

TEST(StragglersTest, TellTheSlowestRankWhenItIsMuchSlowerThanTheMedian) {
  const StragglerCase cases[] = {
      {{0.1}, "nothing"},
      {{0.1, 0.1}, "nothing"},
      {{0.1, 0.149}, "nothing"},
      {{0.1, 0.2},
       "rank 1 is slow: 200 ms of computation per step, median 100 ms; all ranks wait for it"},
      {{0.2, 0.1, 0.1},
       "rank 0 is slow: 200 ms of computation per step, median 100 ms; all ranks wait for it"},
      {{0.1, 0.2, 0.2}, "nothing"},
      {{0.03, 0.01, 0.012, 0.04},
       "rank 3 is slow: 40 ms of computation per step, median 12 ms; all ranks wait for it"},
      {{0, 0}, "nothing"},
  };
  for (const StragglerCase& one : cases) {
    Stragglers watch;
    EXPECT_EQ(reported(watch, one.seconds), one.line);
  }
}

TEST(StragglersTest, EveryHundredStepsCountForThemselves) {
  Stragglers watch;
  EXPECT_NE(reported(watch, {1, 3}), "nothing");
  EXPECT_EQ(reported(watch, {1, 1}), "nothing");
  EXPECT_NE(reported(watch, {3, 1}), "nothing");
}

TEST(StragglersTest, ARankIsNewsOnce) {
  Stragglers watch;
  reported(watch, {1, 3});
  EXPECT_TRUE(watch.is_news());
  reported(watch, {1, 1});
  reported(watch, {1, 3});
  EXPECT_FALSE(watch.is_news());
  reported(watch, {3, 1});
  EXPECT_TRUE(watch.is_news());
}

}  // namespace
}  // namespace accel::stragglers_test
