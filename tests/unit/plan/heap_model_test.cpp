#include "runner/plan/heap_model.h"

#include <gtest/gtest.h>

namespace accel {
namespace {

constexpr int64_t kMib = 1 << 20;
constexpr int64_t kSlack = 200 << 10;  // headers, pages, and room at the end

TEST(HeapModelTest, LargeBlocksGoBackAtOnce) {
  HeapModel heap;
  const HeapModel::Block block = heap.take(100 * kMib);
  EXPECT_NEAR(heap.resident(), 100 * kMib, kSlack);
  heap.give_back(block);
  EXPECT_EQ(heap.resident(), 0);
}

TEST(HeapModelTest, OnceOneHasGoneBlocksOfItsSizeLieInTheHeap) {
  HeapModel heap;
  heap.give_back(heap.take(8 * kMib));
  const HeapModel::Block low = heap.take(4 * kMib), high = heap.take(kMib);
  EXPECT_NEAR(heap.resident(), 5 * kMib, kSlack);
  heap.give_back(low);  // a hole below a block that stays
  EXPECT_NEAR(heap.resident(), 5 * kMib, kSlack);
  const HeapModel::Block again = heap.take(3 * kMib);  // takes the hole
  EXPECT_NEAR(heap.resident(), 5 * kMib, kSlack);
  const HeapModel::Block more = heap.take(2 * kMib);  // does not fit into what is left of it
  EXPECT_NEAR(heap.resident(), 7 * kMib, kSlack);
  for (const HeapModel::Block block : {more, high, again}) heap.give_back(block);
  EXPECT_NEAR(heap.resident(), 7 * kMib, kSlack);  // less than is worth giving back
}

TEST(HeapModelTest, NeighbouringHolesBecomeOne) {
  HeapModel heap;
  heap.give_back(heap.take(8 * kMib));
  const HeapModel::Block a = heap.take(2 * kMib), b = heap.take(2 * kMib), c = heap.take(2 * kMib);
  heap.take(kMib);
  for (const HeapModel::Block block : {a, c, b}) heap.give_back(block);
  heap.take(6 * kMib);
  EXPECT_NEAR(heap.resident(), 7 * kMib, kSlack);
}

TEST(HeapModelTest, ALargeEndGoesBack) {
  HeapModel heap;
  heap.give_back(heap.take(kMib));
  std::vector<HeapModel::Block> blocks;
  for (int i = 0; i < 100; ++i) blocks.push_back(heap.take(kMib / 2));
  EXPECT_NEAR(heap.resident(), 50 * kMib, kSlack);
  for (; !blocks.empty(); blocks.pop_back()) heap.give_back(blocks.back());
  EXPECT_LT(heap.resident(), 3 * kMib);
}

}  // namespace
}  // namespace accel
