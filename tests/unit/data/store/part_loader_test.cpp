// Order, limit, errors and forgotten parts of the loader of announced parts.
#include "data/store/part_loader.h"

#include <gtest/gtest.h>

#include <future>

#include "core/base/error.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::part_loader_test {
namespace {

ObjectPart part(int64_t number) {
  return {0, {number * 10, 10}};
}

/// A load for each part that is let through.
class PartLoaderTest : public testing::Test {
 protected:
  std::optional<SharedBytes> load(const ObjectPart& part) {
    std::unique_lock lock(mutex_);
    loaded_.push_back(part.range.first / 10);
    changed_.notify_all();
    if (blocks_) changed_.wait(lock, [this] { return !blocks_; });
    if (part == part_loader_test::part(9)) throw IoError("broken");
    if (part == part_loader_test::part(8)) return std::nullopt;
    return SharedBytes{{}, std::make_shared<int64_t>(part.range.first)};
  }
  void wait_for_loads(size_t count) {
    std::unique_lock lock(mutex_);
    EXPECT_TRUE(
        changed_.wait_for(lock, std::chrono::seconds(10), [&] { return loaded_.size() >= count; }));
  }
  void set_blocks(bool blocks) {
    const std::lock_guard lock(mutex_);
    blocks_ = blocks;
    changed_.notify_all();
  }
  size_t loads() {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::lock_guard lock(mutex_);
    return loaded_.size();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool blocks_ = false;
  std::vector<int64_t> loaded_;
  PartLoader loader_{{.threads = 2, .bytes = 30},
                     [this](const ObjectPart& part, const std::stop_token&) { return load(part); }};
};

int64_t value_of(const std::optional<SharedBytes>& bytes) {
  return bytes ? *static_cast<const int64_t*>(bytes->owner.get()) : -1;
}

TEST_F(PartLoaderTest, LoadsInOrderUpToItsLimit) {
  loader_.announce({part(0), part(1), part(2), part(3), part(4)});
  wait_for_loads(3);
  EXPECT_EQ(loads(), 3U);
  EXPECT_EQ(value_of(loader_.take(part(0))), 0);
  EXPECT_EQ(value_of(loader_.take(part(4))), -1);  // before its turn
  wait_for_loads(4);
  EXPECT_EQ(value_of(loader_.take(part(3))), 30);
  EXPECT_EQ(value_of(loader_.take(part(3))), -1);
  EXPECT_EQ(loads(), 4U);
}

TEST_F(PartLoaderTest, AReaderWaitsForAPartThatLoads) {
  set_blocks(true);
  loader_.announce({part(5)});
  wait_for_loads(1);
  auto first = std::async(std::launch::async, [&] { return value_of(loader_.take(part(5))); });
  auto second = std::async(std::launch::async, [&] { return value_of(loader_.take(part(5))); });
  set_blocks(false);
  EXPECT_EQ(first.get() + second.get(), 50 - 1);  // one of them takes it
}

TEST_F(PartLoaderTest, AReaderWithoutPatienceGivesThePartUp) {
  set_blocks(true);
  loader_.announce({part(5)});
  wait_for_loads(1);
  EXPECT_EQ(value_of(loader_.take(part(5), std::chrono::milliseconds(5))), -1);
  set_blocks(false);
  EXPECT_EQ(value_of(loader_.take(part(5))), -1);
}

TEST_F(PartLoaderTest, ForgottenPartsAreNotWaitedFor) {
  set_blocks(true);
  loader_.announce({part(1), part(2), part(3)});
  wait_for_loads(2);
  loader_.forget();
  EXPECT_EQ(value_of(loader_.take(part(1))), -1);
  set_blocks(false);
  EXPECT_EQ(loads(), 2U);
  loader_.announce({part(4), part(5), part(6)});  // their room is free again
  wait_for_loads(5);
}

TEST_F(PartLoaderTest, AnErrorIsThatOfTheRead) {
  loader_.announce({part(9)});
  wait_for_loads(1);
  EXPECT_EQ(complaint([&] { loader_.take(part(9)); }), "broken");
}

TEST_F(PartLoaderTest, PartsElsewhereTakeNoRoom) {
  loader_.set_limits({.threads = 2, .bytes = 10});
  loader_.announce({part(8), part(7), part(6)});
  wait_for_loads(2);
  EXPECT_EQ(loads(), 2U);
  EXPECT_EQ(value_of(loader_.take(part(7))), 70);
  wait_for_loads(3);
}

}  // namespace
}  // namespace accel::part_loader_test
