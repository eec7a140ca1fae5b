#include "parallel/shared_memory/block_exchange.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace accel::block_exchange_test {
namespace {

using std::chrono::milliseconds;

constexpr int64_t kAll = BlockExchange::kToAll;

/// The exchanges of `world` ranks, connected.
std::vector<std::unique_ptr<BlockExchange>> connected(
    int64_t world, milliseconds timeout = milliseconds(300'000)) {
  std::vector<std::unique_ptr<BlockExchange>> ranks;
  std::vector<std::string> names;
  for (int64_t r = 0; r < world; ++r) {
    ranks.push_back(std::make_unique<BlockExchange>(r, world, timeout));
    names.push_back(ranks.back()->name());
  }
  for (const auto& rank : ranks) rank->connect(names);
  return ranks;
}

void publish(BlockExchange& from, int64_t lane, uint64_t number, const std::string& text,
             int64_t readers = 1) {
  std::memcpy(from.allocate(text.size()), text.data(), text.size());
  from.publish(lane, number, readers);
}

std::string take(BlockExchange& by, int64_t from, int64_t lane, uint64_t number) {
  const std::span<std::byte> block = by.await(from, lane, number);
  std::string text(reinterpret_cast<const char*>(block.data()), block.size());
  by.release(from, lane, number);
  return text;
}

std::string complaint(const std::function<void()>& body) {
  try {
    body();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST(BlockExchangeTest, BlocksHaveALaneAndANumber) {
  const auto ranks = connected(3);
  publish(*ranks[0], kAll, 0, "first", 2);
  publish(*ranks[0], kAll, 2, "third", 2);
  publish(*ranks[0], BlockExchange::lane_to(1), 0, "for one");
  EXPECT_FALSE(ranks[1]->has(0, kAll, 1));
  EXPECT_TRUE(ranks[1]->has(0, kAll, 2));
  EXPECT_EQ(take(*ranks[1], 0, kAll, 2), "third");
  EXPECT_EQ(take(*ranks[1], 0, kAll, 0), "first");
  EXPECT_EQ(take(*ranks[2], 0, kAll, 0), "first");
  EXPECT_EQ(take(*ranks[1], 0, BlockExchange::lane_to(1), 0), "for one");
}

TEST(BlockExchangeTest, ARankReadsItsOwnBlocksAsWell) {
  const auto ranks = connected(1);
  publish(*ranks[0], kAll, 0, "own");
  EXPECT_EQ(take(*ranks[0], 0, kAll, 0), "own");
}

TEST(BlockExchangeTest, MemoryOfReleasedBlocksIsUsedAgain) {
  const auto ranks = connected(2);
  for (uint64_t n = 0; n < 1000; ++n) {
    publish(*ranks[0], kAll, n, std::string(5000, 'x'));
    EXPECT_EQ(take(*ranks[1], 0, kAll, n).size(), 5000U);
  }
  EXPECT_LT(ranks[0]->segment_bytes(), 20'000U);
}

TEST(BlockExchangeTest, ASegmentThatWasOnceLargeShrinks) {
  const auto ranks = connected(2);
  publish(*ranks[0], kAll, 0, std::string(size_t{40} << 20, 'x'));
  take(*ranks[1], 0, kAll, 0);
  for (uint64_t n = 1; n < 600; ++n) {
    publish(*ranks[0], kAll, n, "small");
    EXPECT_EQ(take(*ranks[1], 0, kAll, n), "small");
  }
  EXPECT_LT(ranks[0]->segment_bytes(), 20'000U);
  publish(*ranks[0], kAll, 600, std::string(size_t{1} << 20, 'y'));
  EXPECT_EQ(take(*ranks[1], 0, kAll, 600), std::string(size_t{1} << 20, 'y'));
}

TEST(BlockExchangeTest, ALaneThatIsFullWaitsForItsReaders) {
  const auto ranks = connected(2);
  std::jthread writer([&] {
    for (uint64_t n = 0; n < 3 * BlockExchange::kSlots; ++n) {
      publish(*ranks[0], kAll, n, std::to_string(n));
    }
  });
  while (!ranks[1]->has(0, kAll, BlockExchange::kSlots - 1)) std::this_thread::yield();
  for (uint64_t n = 0; n < 3 * BlockExchange::kSlots; ++n) {
    EXPECT_EQ(take(*ranks[1], 0, kAll, n), std::to_string(n));
  }
}

/// Ranks that sleep are woken: without that this takes 50 ms for each of the blocks.
TEST(BlockExchangeTest, RanksAnswerEachOtherManyTimes) {
  const auto ranks = connected(4);
  std::vector<std::jthread> threads;
  for (const auto& rank : ranks) {
    threads.emplace_back([&exchange = *rank] {
      for (uint64_t n = 0; n < 2000; ++n) {
        publish(exchange, kAll, n, std::to_string(n + static_cast<uint64_t>(exchange.rank())), 4);
        for (int64_t r = 0; r < 4; ++r) {
          EXPECT_EQ(take(exchange, r, kAll, n), std::to_string(n + static_cast<uint64_t>(r)));
        }
      }
    });
  }
}

TEST(BlockExchangeTest, WhatALostRankPublishedIsStillRead) {
  auto ranks = connected(2);
  publish(*ranks[1], kAll, 0, "last words");
  ranks[1] = nullptr;
  EXPECT_EQ(take(*ranks[0], 1, kAll, 0), "last words");
  EXPECT_EQ(complaint([&] { ranks[0]->await(1, kAll, 1); }), "lost rank 1");
}

TEST(BlockExchangeTest, ARankThatIsKilledIsLost) {
  auto ranks = connected(1);
  BlockExchange own(0, 2, milliseconds(300'000));
  int to_parent[2], to_child[2];
  ASSERT_EQ(pipe(to_parent), 0);
  ASSERT_EQ(pipe(to_child), 0);
  const std::string own_name = own.name();
  const pid_t child = fork();
  if (child == 0) {
    // The file of the parent's segment is open here too.
    BlockExchange other(1, 2, milliseconds(300'000));
    const std::string name = other.name();
    if (write(to_parent[1], name.data(), name.size()) < 0) _exit(1);
    while (true) pause();
  }
  char name[100] = {};
  ASSERT_GT(read(to_parent[0], name, sizeof name - 1), 0);
  own.connect({own_name, name});
  std::jthread killer([child] {
    std::this_thread::sleep_for(milliseconds(100));
    kill(child, SIGKILL);
  });
  EXPECT_EQ(complaint([&] { own.await(1, kAll, 0); }), "lost rank 1");
  waitpid(child, nullptr, 0);
}

TEST(BlockExchangeTest, AFullLaneNoticesALostReader) {
  auto ranks = connected(3);
  for (uint64_t n = 0; n < BlockExchange::kSlots; ++n) publish(*ranks[0], kAll, n, "x", 2);
  ranks[2] = nullptr;
  EXPECT_EQ(complaint([&] { publish(*ranks[0], kAll, BlockExchange::kSlots, "x", 2); }),
            "lost rank 2");
}

TEST(BlockExchangeTest, ARankThatDoesNotComeIsATimeout) {
  const auto ranks = connected(2, milliseconds(100));
  EXPECT_EQ(complaint([&] { ranks[0]->await(1, kAll, 0); }), "timed out waiting for rank 1");
}

}  // namespace
}  // namespace accel::block_exchange_test
