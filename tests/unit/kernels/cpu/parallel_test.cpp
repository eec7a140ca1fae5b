#include "kernels/cpu/parallel.h"

#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

namespace accel::parallel_test {
namespace {

class ParallelTest : public testing::Test {
 protected:
  void TearDown() override { at::set_num_threads(1); }
};

struct Parts {
  std::set<std::pair<int64_t, int64_t>> ranges;
  std::set<std::thread::id> threads;
};

Parts parts_of(int64_t count, int64_t grain, int threads) {
  at::set_num_threads(threads);
  Parts found;
  std::mutex one_at_a_time;
  for_each_part(count, grain, [&](int64_t begin, int64_t end) {
    const std::lock_guard guard(one_at_a_time);
    found.ranges.emplace(begin, end);
    found.threads.insert(std::this_thread::get_id());
  });
  return found;
}

TEST_F(ParallelTest, SeveralThreadsTakePart) {
  EXPECT_EQ(parts_of(100, 1, 1).threads.size(), 1);
  EXPECT_EQ(parts_of(100, 1, 2).threads.size(), 2);
  EXPECT_EQ(parts_of(100, 1, 3).threads.size(), 3);
  EXPECT_EQ(parts_of(100, 100, 3).threads.size(), 1);  // one grain is not divided
}

TEST_F(ParallelTest, PartsBeginAtGrainsAndCoverAll) {
  using Ranges = std::set<std::pair<int64_t, int64_t>>;
  EXPECT_EQ(parts_of(25, 10, 1).ranges, (Ranges{{0, 25}}));
  EXPECT_EQ(parts_of(25, 10, 2).ranges, (Ranges{{0, 20}, {20, 25}}));
  EXPECT_EQ(parts_of(25, 10, 3).ranges, (Ranges{{0, 10}, {10, 20}, {20, 25}}));
  EXPECT_EQ(parts_of(30, 10, 2).ranges, (Ranges{{0, 20}, {20, 30}}));
  EXPECT_EQ(parts_of(3, 10, 2).ranges, (Ranges{{0, 3}}));
  EXPECT_EQ(parts_of(0, 10, 2).ranges, Ranges());
}

TEST_F(ParallelTest, LoopsWithinLoopsAreOfOneThread) {
  at::set_num_threads(2);
  std::vector<int> threads(2, 0);
  for_each_part(2, 1, [&](int64_t begin, int64_t) {
    std::set<std::thread::id> inner;
    for_each_part(8, 1, [&](int64_t, int64_t) { inner.insert(std::this_thread::get_id()); });
    threads[static_cast<size_t>(begin)] = static_cast<int>(inner.size());
  });
  EXPECT_EQ(threads, (std::vector<int>{1, 1}));
}

TEST_F(ParallelTest, WhatOneThreadThrowsIsThrown) {
  at::set_num_threads(2);
  const auto fail = [](int64_t begin, int64_t) {
    if (begin > 0) throw std::runtime_error("at the end");
  };
  EXPECT_THROW(for_each_part(2, 1, fail), std::runtime_error);
}

}  // namespace
}  // namespace accel::parallel_test
