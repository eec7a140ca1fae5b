#include "parallel/shared_memory/block_allocator.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace accel::block_allocator_test {
namespace {

TEST(BlockAllocatorTest, RangesAreAlignedAndTheFirstThatFitsIsTaken) {
  BlockAllocator allocator;
  EXPECT_EQ(allocator.allocate(100), 0U);
  EXPECT_EQ(allocator.allocate(64), 128U);
  EXPECT_EQ(allocator.allocate(0), 192U);
  EXPECT_EQ(allocator.end(), 256U);
  EXPECT_EQ(allocator.used(), 256U);
  allocator.free(0);
  EXPECT_EQ(allocator.used(), 128U);
  EXPECT_EQ(allocator.allocate(129), 256U);  // the gap has 128 bytes
  EXPECT_EQ(allocator.allocate(128), 0U);
}

TEST(BlockAllocatorTest, WithoutRangesItIsEmpty) {
  BlockAllocator allocator;
  EXPECT_EQ(allocator.end(), 0U);
  allocator.free(allocator.allocate(1));
  EXPECT_EQ(allocator.end(), 0U);
  EXPECT_EQ(allocator.used(), 0U);
  EXPECT_THROW(allocator.free(0), std::logic_error);
}

}  // namespace
}  // namespace accel::block_allocator_test
