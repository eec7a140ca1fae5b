// Which checkpoints a policy deletes.
#include "checkpoint/retention.h"

#include <gtest/gtest.h>

#include <limits>

namespace accel::retention_test {
namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(RetentionTest, KeepsTheUnionOfLastAndBest) {
  const std::vector<KeepCandidate> candidates = {{1, 0.9}, {2, 0.2},  {3, std::nullopt},
                                                 {4, 0.2}, {5, kNan}, {6, 0.5}};
  using Mode = KeepPolicy::Mode;
  using Steps = std::vector<int64_t>;
  struct Case {
    KeepPolicy policy;
    Steps deleted;
  };
  const Case cases[] = {
      {{.last = 0}, {}},
      {{.last = 0, .best = 1, .metric = "m"}, {}},
      {{.last = 1}, {1, 2, 3, 4, 5}},
      {{.last = 2}, {1, 2, 3, 4}},
      {{.last = 100}, {}},
      {{.last = 1, .best = 1, .metric = "m", .mode = Mode::kMin}, {1, 3, 4, 5}},
      {{.last = 1, .best = 2, .metric = "m", .mode = Mode::kMin}, {1, 3, 5}},
      {{.last = 1, .best = 1, .metric = "m", .mode = Mode::kMax}, {2, 3, 4, 5}},
      {{.last = 1, .best = 100, .metric = "m", .mode = Mode::kMax}, {3, 5}},
      {{.last = 1, .best = -1, .metric = "m"}, {1, 2, 3, 4, 5}},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(steps_to_delete(candidates, c.policy), c.deleted)
        << "last " << c.policy.last << ", best " << c.policy.best;
  }
}

TEST(RetentionTest, NothingToDeleteAmongNothing) {
  EXPECT_TRUE(steps_to_delete({}, {.last = 1}).empty());
}

}  // namespace
}  // namespace accel::retention_test
