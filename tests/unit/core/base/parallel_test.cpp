#include "core/base/parallel.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace accel::parallel_test {
namespace {

TEST(ParallelTest, EachIndexIsVisitedOnce) {
  for (const size_t threads : {1u, 3u}) {
    std::vector<std::atomic<int>> visits(100);
    parallel_for(visits.size(), threads, [&](size_t i) { ++visits[i]; });
    for (const auto& count : visits) EXPECT_EQ(count, 1);
  }
}

TEST(ParallelTest, FirstExceptionIsThrownAfterAllTasksEnded) {
  for (const bool threads : {false, true}) {
    std::atomic<int> ended = 0;
    const auto fail = [](const char* message) {
      return [message] { throw std::runtime_error(message); };
    };
    try {
      parallel_invoke(threads, {[&] { ++ended; }, fail("first"), fail("second")});
      FAIL();
    } catch (const std::runtime_error& error) {
      EXPECT_STREQ(error.what(), "first");
    }
    EXPECT_EQ(ended, 1);
  }
}

}  // namespace
}  // namespace accel::parallel_test
