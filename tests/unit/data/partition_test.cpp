// A list cut for the ranks, against what Accelerate's split_between_processes gives.
#include "data/partition.h"

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace accel {
namespace {

struct SplitCase {
  int64_t items, world;
  bool padding;
  const char* parts;  ///< items as letters, ranks parted by '|'
};

const SplitCase kSplits[] = {
    {17, 1, false, "abcdefghijklmnopq"},
    {17, 1, true, "abcdefghijklmnopq"},
    {17, 2, false, "abcdefghi|jklmnopq"},
    {17, 2, true, "abcdefghi|jklmnopqq"},
    {17, 4, false, "abcde|fghi|jklm|nopq"},
    {17, 4, true, "abcde|fghiq|jklmq|nopqq"},
    {17, 8, false, "abc|de|fg|hi|jk|lm|no|pq"},
    {17, 8, true, "abc|deq|fgq|hiq|jkq|lmq|noq|pqq"},
    {3, 2, false, "ab|c"},
    {3, 2, true, "ab|cc"},
    {2, 4, false, "a|b||"},
    {2, 4, true, "a|b|b|b"},
    {1, 3, false, "a||"},
    {1, 3, true, "a|a|a"},
    {8, 4, false, "ab|cd|ef|gh"},
    {8, 4, true, "ab|cd|ef|gh"},
    {7, 4, false, "ab|cd|ef|g"},
    {7, 4, true, "ab|cd|ef|gg"},
    {0, 2, false, "|"},
    {0, 2, true, "|"},
};

TEST(PartitionTest, CutsAsAccelerateDoes) {
  for (const SplitCase& c : kSplits) {
    std::string parts;
    for (int64_t rank = 0; rank < c.world; ++rank) {
      const Partition part = split_between_processes(c.items, rank, c.world, c.padding);
      if (rank > 0) parts += '|';
      for (int64_t i = 0; i < part.size; ++i) parts += static_cast<char>('a' + part.first + i);
      parts.append(static_cast<size_t>(part.padded), static_cast<char>('a' + c.items - 1));
    }
    EXPECT_EQ(parts, c.parts) << c.items << " items, " << c.world << " ranks";
  }
}

TEST(PartitionTest, PartsFollowEachOtherAndDifferByOneAtMost) {
  for (int64_t items = 0; items <= 40; ++items) {
    for (int64_t world = 1; world <= 9; ++world) {
      const Partition largest = split_between_processes(items, 0, world, true);
      int64_t next = 0;
      for (int64_t rank = 0; rank < world; ++rank) {
        const Partition part = split_between_processes(items, rank, world, true);
        EXPECT_EQ(part.first, next);
        EXPECT_EQ(part.size + part.padded, largest.size);
        EXPECT_EQ(split_between_processes(items, rank, world, false).padded, 0);
        next += part.size;
      }
      EXPECT_EQ(next, items);
    }
  }
}

TEST(PartitionTest, WhatIsNoPartIsABug) {
  EXPECT_THROW(split_between_processes(-1, 0, 1, false), std::logic_error);
  EXPECT_THROW(split_between_processes(4, 2, 2, false), std::logic_error);
  EXPECT_THROW(split_between_processes(4, -1, 2, false), std::logic_error);
  EXPECT_THROW(split_between_processes(4, 0, 0, false), std::logic_error);
}

}  // namespace
}  // namespace accel
