// How an epoch is dealt to the ranks, against tables that Accelerate wrote.
#include "data/loader/shard.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace accel::shard_test {
namespace {

std::string spelled(const ShardPlan& plan, int64_t index, int64_t rank) {
  const Share share = share_of(plan, index, rank);
  std::string text;
  for (int64_t j = 0; j < share.size; ++j) {
    text += static_cast<char>('a' + (share.first + j) % plan.samples);
  }
  return text;
}

/// As in golden/shards.tsv: "ab,ef|cd,gh".
std::string spelled(const ShardPlan& plan) {
  std::string text;
  for (int64_t rank = 0; rank < plan.world; ++rank) {
    if (rank > 0) text += '|';
    for (int64_t k = 0; k < batches_of(plan, rank); ++k) {
      if (k > 0) text += ',';
      text += spelled(plan, k, rank);
    }
  }
  return text;
}

/// `setting` is two letters as golden/shards.tsv explains them.
ShardPlan with_setting(ShardPlan plan, std::string_view setting) {
  const bool dispatched = setting[0] == 'd' || setting[0] == 'q';
  plan.sharing = dispatched ? Sharing::kSlices : Sharing::kBatches;
  plan.even_batches = setting[1] == 'e' || setting[1] == 'x';
  plan.drop_last = setting[1] == 'x' || setting[1] == 'y';
  return plan;
}

TEST(ShardTest, DealsAsAccelerateDoes) {
  const std::string root = std::getenv("ACCEL_SOURCE_DIR") ? std::getenv("ACCEL_SOURCE_DIR") : ".";
  std::ifstream file(root + "/tests/unit/data/golden/shards.tsv");
  int tables = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("#")) continue;
    std::istringstream columns(line);
    ShardPlan plan;
    std::string settings, expected;
    columns >> plan.samples >> plan.micro_batch >> plan.world >> settings >> expected;
    for (size_t i = 0; i < settings.size(); i += 2) {
      EXPECT_EQ(spelled(with_setting(plan, settings.substr(i, 2))), expected) << line;
      ++tables;
    }
  }
  EXPECT_EQ(tables, 27 * 5 * 4 * 12 - 20);  // less those with an empty batch
}

struct LiteralCase {
  const char* what;
  ShardPlan plan;
  const char* table;
};

const LiteralCase kLiterals[] = {
    {"slices that stay short", {10, 4, 2, Sharing::kSlices, false, false}, "abcd,i|efgh,j"},
    {"a short slice", {11, 4, 2, Sharing::kSlices, false, false}, "abcd,ij|efgh,k"},
    {"a rank without a slice", {5, 4, 4, Sharing::kSlices, false, false}, "ab|cd|e|"},
    {"slices of one sample for all", {1, 2, 4, Sharing::kSlices, true, false}, "a|a|a|a"},
    {"nothing to give", {0, 2, 2, Sharing::kSlices, false, false}, "|"},
    {"fewer samples than ranks", {3, 2, 4, Sharing::kBatches, false, false, true}, "a|b|c|"},
    {"a tail for all ranks", {10, 4, 2, Sharing::kBatches, false, false, true}, "abcd,i|efgh,j"},
    {"unequal slices for all", {7, 4, 3, Sharing::kBatches, false, false, true}, "abc|de|fg"},
    {"slices that would miss a rank", {5, 4, 4, Sharing::kSlices, false, false, true}, "ab|c|d|e"},
    {"no rank without samples",
     {15, 4, 2, Sharing::kBatches, false, false, true},
     "abcd,ijkl|efgh,mno"},
    {"around more than once", {2, 3, 3, Sharing::kBatches, true, false}, "aba|bab|aba"},
};

TEST(ShardTest, DealsWhatAccelerateHasNoTableFor) {
  for (const LiteralCase& c : kLiterals) EXPECT_EQ(spelled(c.plan), c.table) << c.what;
}

/// Every plan of a few sizes.
template <typename Check>
void for_plans(const Check& check) {
  for (int64_t samples = 0; samples <= 40; ++samples) {
    for (const int64_t micro_batch : {1, 2, 3, 7}) {
      for (const int64_t world : {1, 2, 3, 4, 9}) {
        for (const char* setting : {"se", "su", "sx", "sy", "de", "du", "dx", "dy"}) {
          ShardPlan plan = with_setting({samples, micro_batch, world}, setting);
          check(plan);
          plan.all_ranks = true;
          check(plan);
        }
      }
    }
  }
}

TEST(ShardTest, RoundsCountWhatTheirSharesHold) {
  for_plans([](const ShardPlan& plan) {
    int64_t given = 0;
    for (int64_t k = 0; k < rounds_of(plan); ++k) {
      const Round round = round_of(plan, k);
      int64_t valid = 0, padded = 0, batches = 0;
      for (int64_t rank = 0; rank < plan.world; ++rank) {
        const Share share = share_of(plan, k, rank);
        EXPECT_LE(share.size, plan.micro_batch);
        EXPECT_EQ(share.size > 0, rank < round.batches);
        EXPECT_EQ(k < batches_of(plan, rank), rank < round.batches);
        valid += share.valid;
        padded += share.size - share.valid;
        batches += share.size > 0;
      }
      EXPECT_EQ(round.first, given);
      EXPECT_EQ(round.valid, valid);
      EXPECT_EQ(round.padded, padded);
      EXPECT_EQ(round.batches, batches);
      given += valid;
    }
    EXPECT_EQ(given, plan.drop_last ? plan.samples - plan.samples % (plan.micro_batch * plan.world)
                                    : plan.samples);
  });
}

TEST(ShardTest, EachSampleIsValidOnce) {
  for_plans([](const ShardPlan& plan) {
    const int64_t full = plan.micro_batch * plan.world;
    const int64_t given = plan.drop_last ? plan.samples - plan.samples % full : plan.samples;
    std::vector<int> seen(static_cast<size_t>(plan.samples));
    for (int64_t rank = 0; rank < plan.world; ++rank) {
      for (int64_t k = 0; k < batches_of(plan, rank); ++k) {
        const Share share = share_of(plan, k, rank);
        for (int64_t j = 0; j < share.valid; ++j) ++seen.at(static_cast<size_t>(share.first + j));
      }
    }
    for (int64_t i = 0; i < plan.samples; ++i) {
      EXPECT_EQ(seen[static_cast<size_t>(i)], i < given ? 1 : 0);
    }
  });
}

TEST(ShardTest, AnswersForLargeSetsAtOnce) {
  const ShardPlan plan{.samples = int64_t{1} << 61, .micro_batch = 3, .world = 5};
  EXPECT_EQ(rounds_of(plan), 153722867280912931);
  const Share share = share_of(plan, rounds_of(plan) - 1, 4);
  EXPECT_EQ(share.first, plan.samples + 10);
  EXPECT_EQ(share.size, 3);
  EXPECT_EQ(share.valid, 0);
}

}  // namespace
}  // namespace accel::shard_test
