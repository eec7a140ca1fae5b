#include "parallel/pipeline/balance.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace accel {
namespace {

using Sizes = std::vector<int64_t>;

TEST(BalanceBlocksTest, EqualBlocksAreDividedEvenly) {
  EXPECT_EQ(balance_blocks({1, 1, 1, 1, 1, 1}, 3), (Sizes{2, 2, 2}));
  EXPECT_EQ(balance_blocks({5, 5, 5}, 1), (Sizes{3}));
  EXPECT_EQ(balance_blocks({1, 1, 1}, 3), (Sizes{1, 1, 1}));
}

TEST(BalanceBlocksTest, AStageWithAnExpensiveHeadGetsFewerBlocks) {
  EXPECT_EQ(balance_blocks({1, 1, 1, 1, 1, 5}, 2), (Sizes{5, 1}));
  EXPECT_EQ(balance_blocks({3, 1, 1, 1, 1, 1, 1, 3}, 4), (Sizes{1, 3, 3, 1}));
}

TEST(BalanceBlocksTest, WhatIsLeftIsEven) {
  // The last block alone is the most expensive stage, whatever the others are.
  EXPECT_EQ(balance_blocks({1, 1, 1, 1, 9}, 3), (Sizes{2, 2, 1}));
}

TEST(BalanceBlocksTest, RefusesMoreStagesThanBlocks) {
  EXPECT_THROW(balance_blocks({1, 1}, 3), std::logic_error);
}

}  // namespace
}  // namespace accel
