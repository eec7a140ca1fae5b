// The order of an epoch against files that Accelerate's and transformers' samplers wrote.
#include "data/loader/epoch_order.h"

#include <gtest/gtest.h>
#include <zlib.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

namespace accel::permutation_test {
namespace {

struct GoldenOrder {
  int64_t samples = 0;
  uint64_t seed = 0;
  int64_t epoch = 0;
  uint64_t crc = 0;
  std::vector<int64_t> first;
};

/// The rows of a file of orders. That of groups has their batch for the seed, and the seed for the
/// epoch.
std::vector<GoldenOrder> golden_orders(const std::string& name) {
  const std::string root = std::getenv("ACCEL_SOURCE_DIR") ? std::getenv("ACCEL_SOURCE_DIR") : ".";
  std::ifstream file(root + "/tests/unit/data/golden/" + name);
  std::vector<GoldenOrder> all;
  std::string line;
  std::getline(file, line);  // the names of the columns
  while (std::getline(file, line)) {
    std::istringstream columns(line);
    GoldenOrder order;
    columns >> order.samples >> order.seed >> order.epoch >> order.crc;
    for (int64_t number = 0; columns >> number;) order.first.push_back(number);
    all.push_back(std::move(order));
  }
  return all;
}

uint64_t crc_of(const std::vector<int64_t>& numbers) {
  return crc32_z(0, reinterpret_cast<const Bytef*>(numbers.data()), numbers.size() * 8);
}

TEST(PermutationTest, EqualsAcceleratesSeedableSampler) {
  const std::vector<GoldenOrder> orders = golden_orders("epoch_order.tsv");
  ASSERT_GT(orders.size(), 200u);
  for (const GoldenOrder& golden : orders) {
    const auto order = epoch_permutation(golden.samples, golden.seed, golden.epoch);
    const auto place = std::to_string(golden.samples) + " samples, seed " +
                       std::to_string(golden.seed) + ", epoch " + std::to_string(golden.epoch);
    ASSERT_EQ(static_cast<int64_t>(order.size()), golden.samples) << place;
    EXPECT_TRUE(std::equal(golden.first.begin(), golden.first.end(), order.begin())) << place;
    EXPECT_EQ(crc_of(order), golden.crc) << place;
  }
}

TEST(PermutationTest, GroupsEqualTransformersLengthGroupedSampler) {
  const std::vector<GoldenOrder> orders = golden_orders("length_groups.tsv");
  ASSERT_EQ(orders.size(), 30u);
  for (const GoldenOrder& golden : orders) {
    std::vector<int64_t> lengths;
    for (int64_t i = 0; i < golden.samples; ++i) lengths.push_back(i * i % 97 + 1 + i % 3);
    const auto batch = static_cast<int64_t>(golden.seed);
    const auto seed = static_cast<uint64_t>(golden.epoch);
    const auto order = grouped_by_length(permutation(golden.samples, seed), lengths, batch);
    const auto place = std::to_string(golden.samples) + " samples, batches of " +
                       std::to_string(batch) + ", seed " + std::to_string(seed);
    EXPECT_TRUE(std::equal(golden.first.begin(), golden.first.end(), order.begin())) << place;
    EXPECT_EQ(crc_of(order), golden.crc) << place;
  }
}

TEST(PermutationTest, HoldsEachNumberOnce) {
  for (const int64_t n : {0, 1, 2, 17, 1000}) {
    auto numbers = permutation(n, 5);
    std::sort(numbers.begin(), numbers.end());
    for (int64_t i = 0; i < n; ++i) EXPECT_EQ(numbers[static_cast<size_t>(i)], i);
  }
}

TEST(PermutationTest, SeedAndEpochWrapAroundTogether) {
  EXPECT_EQ(epoch_permutation(100, ~uint64_t{0}, 1), permutation(100, 0));
}

}  // namespace
}  // namespace accel::permutation_test
