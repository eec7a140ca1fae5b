#include "kernels/memory/free_list.h"

#include <gtest/gtest.h>

#include <random>

namespace accel::free_list_test {
namespace {

constexpr int64_t kMib = 1 << 20;
constexpr int64_t kSlack = 1 << 10;  // between blocks

TEST(BlockHeapTest, WhatIsFreedStaysForWhatComesNext) {
  FreeList heap;
  heap.give_back(*heap.take(100 * kMib));
  EXPECT_NEAR(heap.extent(), 100 * kMib, kSlack);
  heap.take(40 * kMib);
  heap.take(60 * kMib - kSlack);
  EXPECT_NEAR(heap.extent(), 100 * kMib, kSlack);
}

TEST(BlockHeapTest, AHoleTakesWhatFitsIntoIt) {
  FreeList heap;
  const FreeList::Block low = *heap.take(4 * kMib);
  heap.take(kMib);
  heap.give_back(low);
  heap.take(3 * kMib);
  EXPECT_NEAR(heap.extent(), 5 * kMib, kSlack);
  heap.take(2 * kMib);  // does not fit into what is left of it
  EXPECT_NEAR(heap.extent(), 7 * kMib, kSlack);
}

TEST(BlockHeapTest, TheSmallestHoleThatFitsIsTaken) {
  FreeList heap;
  const FreeList::Block wide = *heap.take(4 * kMib);
  heap.take(kMib);
  const FreeList::Block narrow = *heap.take(2 * kMib);
  heap.take(kMib);
  heap.give_back(wide);
  heap.give_back(narrow);
  EXPECT_EQ(heap.take(2 * kMib), narrow);
  EXPECT_EQ(heap.take(4 * kMib), wide);
}

TEST(BlockHeapTest, OfAHoleLargeBlocksTakeTheEndAndOthersTheBegin) {
  FreeList heap;
  const FreeList::Block free_block = *heap.take(20 * kMib), behind = *heap.take(kMib);
  heap.give_back(free_block);
  const FreeList::Block large = *heap.take(8 * kMib), small = *heap.take(2 * kMib);
  EXPECT_NEAR(large, behind - 8 * kMib, kSlack);
  EXPECT_EQ(small, free_block);
  heap.give_back(large);
  heap.take(17 * kMib);  // nothing is left in the middle of what large blocks had
  EXPECT_NEAR(heap.extent(), 21 * kMib, kSlack);
}

/// A step that casts a table of weights, computes beside it, and turns its gradient into one twice
/// as large, beside optimizer state: what mixed precision does to a large vocabulary.
TEST(BlockHeapTest, ARunsStepsStayWithinTheFirstOnesRange) {
  FreeList heap;
  for (int i = 0; i < 3; ++i) heap.take(147 * kMib);
  int64_t first = 0;
  for (int step = 0; step < 3; ++step) {
    std::vector<FreeList::Block> layers;
    for (int i = 0; i < 40; ++i) layers.push_back(*heap.take(2 * kMib + i * 4096));
    const FreeList::Block cast = *heap.take(73 * kMib), logits = *heap.take(24 * kMib);
    const FreeList::Block low = *heap.take(73 * kMib);
    heap.give_back(logits);
    heap.give_back(cast);
    const FreeList::Block gradient = *heap.take(147 * kMib);
    heap.give_back(low);
    std::vector<FreeList::Block> gradients;
    for (const FreeList::Block layer : layers) {
      heap.give_back(layer);
      gradients.push_back(*heap.take(4 * kMib));
    }
    for (const FreeList::Block block : gradients) heap.give_back(block);
    heap.give_back(gradient);
    if (step == 0) first = heap.extent();
  }
  EXPECT_EQ(heap.extent(), first);
}

TEST(BlockHeapTest, NeighbouringHolesBecomeOne) {
  FreeList heap;
  const FreeList::Block a = *heap.take(2 * kMib), b = *heap.take(2 * kMib),
                        c = *heap.take(2 * kMib);
  heap.take(kMib);
  for (const FreeList::Block block : {a, c, b}) heap.give_back(block);
  heap.take(6 * kMib);
  EXPECT_NEAR(heap.extent(), 7 * kMib, kSlack);
}

TEST(BlockHeapTest, HolesAreWhatNoBlockHas) {
  FreeList heap;
  const FreeList::Block a = *heap.take(kMib), b = *heap.take(kMib), c = *heap.take(kMib);
  heap.give_back(a);
  heap.give_back(c);
  std::vector<std::pair<int64_t, int64_t>> free_blocks;
  heap.for_each_free_range(
      [&](int64_t begin, int64_t size) { free_blocks.emplace_back(begin, size); });
  EXPECT_EQ(free_blocks,
            (std::vector<std::pair<int64_t, int64_t>>{{a, b - a}, {c, heap.extent() - c}}));
}

TEST(BlockHeapTest, NothingBeyondTheLimit) {
  FreeList heap;
  heap.limit(4 * kMib);
  EXPECT_FALSE(heap.take(4 * kMib));  // with what lies between blocks it is more
  const std::optional<FreeList::Block> block = heap.take(3 * kMib);
  ASSERT_TRUE(block);
  EXPECT_FALSE(heap.take(kMib));
  EXPECT_LT(heap.extent(), 4 * kMib);
  heap.give_back(*block);
  EXPECT_EQ(heap.take(2 * kMib), *block);
}

TEST(BlockHeapTest, BlocksNeverOverlap) {
  FreeList heap;
  std::mt19937 draw(1);
  std::map<int64_t, int64_t> blocks;
  for (int i = 0; i < 20000; ++i) {
    if (blocks.size() < 50 || draw() % 2) {
      const int64_t bytes = 1 + draw() % 5000;
      const int64_t begin = *heap.take(bytes);
      const auto [at, fresh] = blocks.emplace(begin, begin + bytes);
      ASSERT_TRUE(fresh);
      const auto next = std::next(at);
      ASSERT_TRUE(at == blocks.begin() || std::prev(at)->second <= begin);
      ASSERT_TRUE(next == blocks.end() || begin + bytes <= next->first);
    } else {
      const auto gone = std::next(blocks.begin(), draw() % blocks.size());
      heap.give_back(gone->first);
      blocks.erase(gone);
    }
  }
  for (const auto& [begin, end] : blocks) heap.give_back(begin);
  EXPECT_EQ(heap.take(heap.extent() - 64), 0);  // one free_block again
}

}  // namespace
}  // namespace accel::free_list_test
