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

TEST(TaskQueueTest, RunsTasksInTheirOrderAndReportsFailures) {
  std::vector<int> order;
  std::vector<std::future<void>> done;
  TaskQueue queue(1);
  for (int i = 0; i < 20; ++i) {
    done.push_back(queue.add(std::packaged_task<void()>([&order, i] {
      if (i == 3) throw std::runtime_error("no");
      order.push_back(i);
    })));
  }
  for (size_t i = 0; i < done.size(); ++i) {
    if (i == 3) {
      EXPECT_THROW(done[i].get(), std::runtime_error);
    } else {
      done[i].get();
    }
  }
  EXPECT_EQ(order,
            (std::vector<int>{0, 1, 2, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19}));
}

TEST(TaskQueueTest, TasksRunAtTheSameTimeAndTheEndWaitsForThem) {
  std::atomic<int> ended = 0;
  std::promise<void> first;
  {
    TaskQueue queue(2);
    queue.add(std::packaged_task<void()>([&] {
      first.get_future().get();  // of the other thread
      ++ended;
    }));
    queue.add(std::packaged_task<void()>([&] { first.set_value(); }));
    for (int i = 0; i < 100; ++i) queue.add(std::packaged_task<void()>([&] { ++ended; }));
  }
  EXPECT_EQ(ended, 101);
}

}  // namespace
}  // namespace accel::parallel_test
