#include "parallel/shared_memory/block_heap.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace accel::block_heap_test {
namespace {

TEST(BlockHeapTest, RangesAreAlignedAndTheFirstThatFitsIsTaken) {
  BlockHeap heap;
  EXPECT_EQ(heap.allocate(100), 0U);
  EXPECT_EQ(heap.allocate(64), 128U);
  EXPECT_EQ(heap.allocate(0), 192U);
  EXPECT_EQ(heap.end(), 256U);
  EXPECT_EQ(heap.used(), 256U);
  heap.free(0);
  EXPECT_EQ(heap.used(), 128U);
  EXPECT_EQ(heap.allocate(129), 256U);  // the gap has 128 bytes
  EXPECT_EQ(heap.allocate(128), 0U);
}

TEST(BlockHeapTest, WithoutRangesItIsEmpty) {
  BlockHeap heap;
  EXPECT_EQ(heap.end(), 0U);
  heap.free(heap.allocate(1));
  EXPECT_EQ(heap.end(), 0U);
  EXPECT_EQ(heap.used(), 0U);
  EXPECT_THROW(heap.free(0), std::logic_error);
}

}  // namespace
}  // namespace accel::block_heap_test
