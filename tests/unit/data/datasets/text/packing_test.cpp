#include "data/datasets/text/token_sequences.h"

#include <gtest/gtest.h>

namespace accel::packing_test {
namespace {

using Lists = std::vector<std::vector<int64_t>>;

Lists packed(const std::vector<int64_t>& lengths, int64_t most) {
  const Packing packing(static_cast<int64_t>(lengths.size()), most,
                        [&](int64_t i) { return lengths[static_cast<size_t>(i)]; });
  Lists out;
  for (int64_t i = 0; i < packing.size(); ++i) {
    const auto members = packing.members(i);
    out.emplace_back(members.begin(), members.end());
  }
  return out;
}

TEST(PackingTest, EachGoesWhereThereIsRoomFirst) {
  EXPECT_EQ(packed({4, 5, 3, 6, 5, 2}, 10), (Lists{{0, 1}, {2, 3}, {4, 5}}));
  EXPECT_EQ(packed({6, 7, 4, 3}, 10), (Lists{{0, 2}, {1, 3}}));
  EXPECT_EQ(packed({10, 10}, 10), (Lists{{0}, {1}}));
  EXPECT_EQ(packed({}, 10), Lists{});
}

TEST(PackingTest, PairsNeedRoomForBoth) {
  const std::vector<PairLength> lengths = {{4, 9}, {5, 2}, {3, 1}, {6, 8}};
  const Packing packing(4, {10, 10}, [&](int64_t i) { return lengths[static_cast<size_t>(i)]; });
  Lists samples;
  for (int64_t i = 0; i < packing.size(); ++i) {
    const auto members = packing.members(i);
    samples.emplace_back(members.begin(), members.end());
  }
  EXPECT_EQ(samples, (Lists{{0, 2}, {1}, {3}}));
}

TEST(PackingTest, NothingIsLostNorTooLongAmongMany) {
  std::vector<int64_t> lengths;
  for (int64_t i = 0; i < 5000; ++i) lengths.push_back(1 + i * 7919 % 100);
  const Lists samples = packed(lengths, 100);
  std::vector<int> seen(lengths.size());
  int64_t tokens = 0;
  for (const auto& members : samples) {
    int64_t sum = 0;
    for (const int64_t i : members) {
      ++seen[static_cast<size_t>(i)];
      sum += lengths[static_cast<size_t>(i)];
    }
    EXPECT_LE(sum, 100);
    tokens += sum;
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), 5000);
  EXPECT_GT(static_cast<double>(tokens) / static_cast<double>(samples.size()), 97.0);
}

}  // namespace
}  // namespace accel::packing_test
