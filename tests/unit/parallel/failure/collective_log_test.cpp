#include "parallel/failure/collective_log.h"

#include <gtest/gtest.h>

#include <stdexcept>

#include "tests/unit/parallel/failure/watched_ranks.h"

namespace accel::collective_log_test {
namespace {

CollectiveCall on_device_call(const char* purpose) {
  return {.operation = "all-reduce", .purpose = purpose, .bytes = 8, .on_device = true};
}

struct LogTest : testing::Test {
  std::shared_ptr<LogClock> clock = std::make_shared<LogClock>();
  CollectiveLog log{{"world", "tp", {0, 1}}, clock};

  void call(const char* purpose, int64_t sequence, std::function<bool()> is_completed) {
    log.called(on_device_call(purpose), sequence, 7);
    log.started(c10::make_intrusive<DeviceWork>(std::move(is_completed)));
  }
  std::string oldest() const {
    const auto waiting = log.oldest();
    return waiting ? waiting->call.purpose : "";
  }
};

TEST_F(LogTest, TheOldestThatHasNotCompletedWaits) {
  bool first = false, second = false;
  call("first", 1, [&] { return first; });
  clock->milliseconds = 300;
  call("second", 2, [&] { return second; });
  clock->milliseconds = 1000;
  log.prune();
  EXPECT_EQ(oldest(), "first");
  EXPECT_EQ(log.oldest()->milliseconds, 1000);
  first = true;
  log.prune();
  EXPECT_EQ(oldest(), "second");
  EXPECT_EQ(log.oldest()->milliseconds, 700);
  EXPECT_EQ(log.oldest()->call.axes, "tp");
  EXPECT_EQ(log.oldest()->call.step, 7);
  second = true;
  log.prune();
  EXPECT_EQ(oldest(), "");
  EXPECT_EQ(log.last()->purpose, "second");
}

TEST_F(LogTest, ACallThatHasNotReturnedWaits) {
  log.called(on_device_call("gradients"), 1, 0);
  log.prune();
  EXPECT_EQ(oldest(), "gradients");
  log.started({});  // nothing runs
  EXPECT_EQ(oldest(), "");
}

TEST_F(LogTest, CallsOfTheHostDoNotWaitButAreTheLast) {
  call("device", 1, [] { return false; });
  log.called({.operation = "barrier", .purpose = "host"}, 2, 0);
  log.started({});
  EXPECT_EQ(oldest(), "device");
  EXPECT_EQ(log.last()->purpose, "host");
  EXPECT_EQ(log.last()->order, 2);
}

TEST_F(LogTest, AfterAFailureOfTheDeviceNothingWaits) {
  call("fails", 1, []() -> bool { throw std::runtime_error("CUDA error"); });
  log.prune();
  EXPECT_EQ(oldest(), "");
  call("later", 2, [] { return false; });
  EXPECT_EQ(oldest(), "");
  EXPECT_EQ(log.last()->purpose, "later");
}

}  // namespace
}  // namespace accel::collective_log_test
