#include "runner/loop/stragglers.h"

#include <gtest/gtest.h>

namespace accel {
namespace {

/// What is said after so many steps in which ranks computed for `seconds` each; it may only be said
/// in the last of them.
std::string told(Stragglers& watch, const std::vector<double>& seconds,
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
       "all ranks wait for rank 1, which computes 200 ms a step, the median rank 100 ms"},
      {{0.2, 0.1, 0.1},
       "all ranks wait for rank 0, which computes 200 ms a step, the median rank 100 ms"},
      {{0.1, 0.2, 0.2}, "nothing"},
      {{0.03, 0.01, 0.012, 0.04},
       "all ranks wait for rank 3, which computes 40 ms a step, the median rank 12 ms"},
      {{0, 0}, "nothing"},
  };
  for (const StragglerCase& one : cases) {
    Stragglers watch;
    EXPECT_EQ(told(watch, one.seconds), one.line);
  }
}

TEST(StragglersTest, EveryHundredStepsCountForThemselves) {
  Stragglers watch;
  EXPECT_NE(told(watch, {1, 3}), "nothing");
  EXPECT_EQ(told(watch, {1, 1}), "nothing");
  EXPECT_NE(told(watch, {3, 1}), "nothing");
}

TEST(StragglersTest, ARankIsNewsOnce) {
  Stragglers watch;
  told(watch, {1, 3});
  EXPECT_TRUE(watch.is_news());
  told(watch, {1, 1});
  told(watch, {1, 3});
  EXPECT_FALSE(watch.is_news());
  told(watch, {3, 1});
  EXPECT_TRUE(watch.is_news());
}

}  // namespace
}  // namespace accel
