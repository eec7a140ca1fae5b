// Windows that several ranks share: who gets what, and that together they get an epoch.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <sstream>
#include <string>

#include "core/base/error.h"
#include "data/loader/epoch_order.h"
#include "data/loader/loader.h"
#include "data/loader/mixture.h"
#include "tests/unit/data/number_dataset.h"

namespace accel::loader_ranks_test {
namespace {

/// Makes visible which epoch and which draw a sample was made for.
class Jitter final : public Transform {
 public:
  Sample apply(Sample sample, SampleRng& rng) const override {
    const float value = static_cast<float>(rng.uniform());
    return {Array::of<float>(DType::kF32, {1}, {&value, 1}), sample.target};
  }
  DataShape shape() const override { return {.input = {1}, .target = {}, .labels = {}}; }
};

Loader rank_loader(std::shared_ptr<const Dataset> dataset, LoaderOptions options, int64_t rank) {
  std::vector<std::unique_ptr<Transform>> transforms;
  transforms.push_back(std::make_unique<Jitter>());
  options.rank = rank;
  return Loader(std::move(dataset), std::move(transforms), options);
}

/// [rank][step] of the first `epochs` epochs.
using RankWindows = std::vector<std::vector<GlobalBatch>>;

RankWindows windows_of_ranks(const std::shared_ptr<const Dataset>& dataset,
                             const LoaderOptions& options, int64_t epochs = 1) {
  RankWindows all;
  for (int64_t rank = 0; rank < options.world; ++rank) {
    auto loader = rank_loader(dataset, options, rank);
    auto& global_batches = all.emplace_back();
    for (int64_t i = 0; i < epochs * loader.steps_per_epoch(); ++i)
      global_batches.push_back(loader.next());
  }
  return all;
}

RankWindows windows_of_ranks(int64_t size, const LoaderOptions& options, int64_t epochs = 1) {
  return windows_of_ranks(std::make_shared<NumberDataset>(size), options, epochs);
}

/// All that a global batch holds but its own micro-batches, which is to be alike on all ranks.
std::string account_of(const GlobalBatch& global_batch) {
  std::ostringstream text;
  text << global_batch.epoch << '/' << global_batch.step << ' ' << global_batch.samples << '+'
       << global_batch.padded << " in " << global_batch.num_micro_batches << ", "
       << global_batch.digest;
  return text.str();
}

std::string content_of(const GlobalBatch& global_batch) {
  std::ostringstream text;
  text << account_of(global_batch);
  for (const HostBatch& batch : global_batch.micro_batches) {
    text << " | " << batch.micro_batch_index << ':';
    for (size_t i = 0; i < batch.ids.size(); ++i) {
      text << ' ' << batch.ids[i] << '=' << batch.inputs.as<float>()[i] << ','
           << batch.targets.as<int64_t>()[i]
           << (static_cast<int64_t>(i) < batch.valid() ? "" : "*");
    }
  }
  return text.str();
}

/// "ab,ef|cd,ga*": the ids as letters, ranks parted by '|', global batches by ',', micro-batches by
/// ' '; after '*' comes what does not count.
std::string spelled_ids(const RankWindows& ranks) {
  std::string text;
  for (const auto& global_batches : ranks) {
    if (&global_batches != &ranks.front()) text += '|';
    for (const GlobalBatch& global_batch : global_batches) {
      if (&global_batch != &global_batches.front()) text += ',';
      for (const HostBatch& batch : global_batch.micro_batches) {
        if (&batch != &global_batch.micro_batches.front()) text += ' ';
        for (size_t i = 0; i < batch.ids.size(); ++i) {
          if (static_cast<int64_t>(i) == batch.valid()) text += '*';
          text += static_cast<char>('a' + batch.ids[i]);
        }
      }
    }
  }
  return text;
}

/// What counts, in the order of the epoch: by global batch, then by part.
std::vector<int64_t> gathered(const RankWindows& ranks) {
  std::vector<int64_t> ids;
  for (size_t step = 0; step < ranks.front().size(); ++step) {
    std::map<int64_t, const HostBatch*> parts;
    for (const auto& global_batches : ranks) {
      for (const HostBatch& batch : global_batches[step].micro_batches) {
        EXPECT_TRUE(parts.emplace(batch.micro_batch_index, &batch).second);
      }
    }
    for (const auto& [part, batch] : parts) {
      ids.insert(ids.end(), batch->ids.begin(), batch->ids.begin() + batch->valid());
    }
  }
  return ids;
}

std::vector<int64_t> first_numbers(int64_t count) {
  std::vector<int64_t> numbers(static_cast<size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

struct SharedCase {
  int64_t size, micro_batch, accumulation, world;
  Sharing sharing;
  bool even_batches;
  const char* ids;
};

const SharedCase kShared[] = {
    {3, 1, 1, 2, Sharing::kBatches, true, "a,c|b,*a"},
    {7, 2, 1, 2, Sharing::kBatches, true, "ab,ef|cd,g*a"},
    {3, 1, 1, 2, Sharing::kBatches, false, "a,c|b,"},
    {7, 2, 1, 2, Sharing::kBatches, false, "ab,ef|cd,g"},
    {23, 4, 1, 2, Sharing::kBatches, true, "abcd,ijkl,qrst|efgh,mnop,uvw*a"},
    {1, 4, 1, 2, Sharing::kBatches, true, "a*aaa|*aaaa"},
    {10, 2, 1, 3, Sharing::kBatches, true, "ab,gh|cd,ij|ef,*ab"},
    {10, 2, 1, 3, Sharing::kBatches, false, "ab,gh|cd,ij|ef,"},
    {10, 3, 1, 2, Sharing::kSlices, true, "abc,gh|def,ij"},
    {9, 3, 1, 2, Sharing::kSlices, true, "abc,gh|def,i*a"},
    {9, 3, 1, 2, Sharing::kSlices, false, "abc,gh|def,i"},
    {7, 2, 1, 1, Sharing::kBatches, true, "ab,cd,ef,g"},
    {7, 2, 1, 1, Sharing::kSlices, true, "ab,cd,ef,g"},
    // With accumulation, the micro-batches of a global batch go around the ranks.
    {16, 2, 2, 2, Sharing::kBatches, true, "ab ef,ij mn|cd gh,kl op"},
    {11, 2, 2, 2, Sharing::kBatches, true, "ab ef,ij|cd gh,k*a"},
    {13, 2, 2, 2, Sharing::kBatches, true, "ab ef,ij m*a|cd gh,kl *bc"},
    {13, 2, 2, 2, Sharing::kBatches, false, "ab ef,ij m|cd gh,kl"},
    {14, 2, 2, 2, Sharing::kSlices, true, "ab ef,ij m|cd gh,kl n"},
    // More ranks than samples.
    {2, 2, 1, 4, Sharing::kBatches, true, "ab|*ab|*ab|*ab"},
    {2, 2, 1, 4, Sharing::kBatches, false, "ab|||"},
    {2, 2, 1, 4, Sharing::kSlices, true, "a|b|*a|*b"},
    {2, 2, 1, 4, Sharing::kSlices, false, "a|b||"},
};

TEST(LoaderRanksTest, ShareTheDatasetsOrder) {
  for (const SharedCase& c : kShared) {
    for (const int64_t workers : {0, 4}) {
      const LoaderOptions options{.batch = c.micro_batch * c.accumulation * c.world,
                                  .micro_batch = c.micro_batch,
                                  .workers = workers,
                                  .shuffle = false,
                                  .world = c.world,
                                  .sharing = c.sharing,
                                  .even_batches = c.even_batches};
      EXPECT_EQ(spelled_ids(windows_of_ranks(c.size, options)), c.ids)
          << c.size << " samples, " << c.world << " ranks, " << workers << " workers";
    }
  }
}

/// Every way to share `batch` samples a global batch among 1, 2, 3 and 4 ranks.
template <typename Check>
void for_layouts(int64_t batch, const Check& check) {
  for (const int64_t world : {1, 2, 3, 4}) {
    for (int64_t micro_batch = 1; micro_batch <= batch; ++micro_batch) {
      if (batch % (world * micro_batch) != 0) continue;
      for (const Sharing sharing : {Sharing::kBatches, Sharing::kSlices}) {
        for (const bool even : {true, false}) {
          check(LoaderOptions{.batch = batch,
                              .micro_batch = micro_batch,
                              .seed = 42,
                              .world = world,
                              .sharing = sharing,
                              .even_batches = even});
        }
      }
    }
  }
}

TEST(LoaderRanksTest, TogetherVisitTheOrderOfOneRank) {
  for (const int64_t size : {1, 2, 11, 12, 22, 29}) {
    for (const uint64_t seed : {42, 7}) {
      auto expected = epoch_permutation(size, seed, 0);
      const auto second = epoch_permutation(size, seed, 1);
      expected.insert(expected.end(), second.begin(), second.end());
      for_layouts(12, [&](LoaderOptions options) {
        options.seed = seed;
        EXPECT_EQ(gathered(windows_of_ranks(size, options, 2)), expected)
            << size << " samples, " << options.world << " ranks";
      });
    }
  }
}

TEST(LoaderRanksTest, WriteTheDigestsOfOneRank) {
  for (const int64_t size : {1, 5, 12, 31}) {
    auto alone = rank_loader(std::make_shared<NumberDataset>(size),
                             {.batch = 12, .micro_batch = 12, .seed = 42}, 0);
    std::vector<GlobalBatch> expected;
    for (int64_t i = 0; i < 2 * alone.steps_per_epoch(); ++i) expected.push_back(alone.next());
    for_layouts(12, [&](const LoaderOptions& options) {
      for (const auto& global_batches : windows_of_ranks(size, options, 2)) {
        ASSERT_EQ(global_batches.size(), expected.size());
        for (size_t i = 0; i < global_batches.size(); ++i) {
          EXPECT_EQ(global_batches[i].digest, expected[i].digest);
          EXPECT_EQ(global_batches[i].samples, expected[i].samples);
        }
      }
    });
  }
}

TEST(LoaderRanksTest, DigestIsThatOfTheIdsInOrder) {
  for (const int64_t epoch : {0, 1}) {
    uint64_t digest = 0xcbf29ce484222325ULL;
    for (const int64_t id : epoch_permutation(6, 42, epoch)) {
      digest = (digest ^ static_cast<uint64_t>(id)) * 0x100000001b3ULL;
    }
    for_layouts(12, [&](const LoaderOptions& options) {
      for (const auto& global_batches : windows_of_ranks(6, options, 2)) {
        EXPECT_EQ(global_batches[static_cast<size_t>(epoch)].digest, digest);
      }
    });
  }
}

void expect_account(const RankWindows& ranks, size_t step, const LoaderOptions& options) {
  int64_t samples = 0, padded = 0;
  std::vector<int64_t> parts;
  for (int64_t rank = 0; rank < options.world; ++rank) {
    const GlobalBatch& global_batch = ranks[static_cast<size_t>(rank)][step];
    EXPECT_EQ(account_of(global_batch), account_of(ranks[0][step]));
    for (size_t a = 0; a < global_batch.micro_batches.size(); ++a) {
      const HostBatch& batch = global_batch.micro_batches[a];
      EXPECT_EQ(batch.micro_batch_index, static_cast<int64_t>(a) * options.world + rank);
      EXPECT_EQ(batch.inputs.shape()[0], static_cast<int64_t>(batch.ids.size()));
      EXPECT_GT(batch.ids.size(), 0u);
      samples += batch.valid();
      padded += batch.padded;
      parts.push_back(batch.micro_batch_index);
    }
  }
  std::sort(parts.begin(), parts.end());
  EXPECT_EQ(parts, first_numbers(ranks[0][step].num_micro_batches));
  EXPECT_EQ(ranks[0][step].samples, samples);
  EXPECT_EQ(ranks[0][step].padded, padded);
}

TEST(LoaderRanksTest, KnowWhatTheWholeWindowHolds) {
  for (const int64_t size : {1, 3, 12, 13, 22, 35}) {
    for_layouts(12, [size](const LoaderOptions& options) {
      const RankWindows ranks = windows_of_ranks(size, options, 2);
      for (size_t step = 0; step < ranks[0].size(); ++step) expect_account(ranks, step, options);
      if (options.even_batches) {
        for (const auto& global_batches : ranks) {
          for (size_t step = 0; step < global_batches.size(); ++step) {
            EXPECT_EQ(global_batches[step].micro_batches.size(),
                      ranks[0][step].micro_batches.size());
          }
        }
      } else {
        for (const GlobalBatch& global_batch : ranks[0]) EXPECT_EQ(global_batch.padded, 0);
      }
    });
  }
}

TEST(LoaderRanksTest, AreTheSameForAnyNumberOfWorkers) {
  const auto number = [](int64_t size) { return std::make_shared<NumberDataset>(size); };
  const std::vector<std::shared_ptr<const Dataset>> sets = {
      number(23), number(2),
      std::make_shared<Mixture>(std::vector<std::shared_ptr<const Dataset>>{number(19), number(4)},
                                std::vector<double>{1, 1})};
  for (const auto& dataset : sets) {
    for_layouts(8, [&](LoaderOptions options) {
      const RankWindows expected = windows_of_ranks(dataset, options, 3);
      options.workers = 4;
      options.prefetch = 5;
      const RankWindows ranks = windows_of_ranks(dataset, options, 3);
      for (size_t rank = 0; rank < ranks.size(); ++rank) {
        for (size_t i = 0; i < ranks[rank].size(); ++i) {
          EXPECT_EQ(content_of(ranks[rank][i]), content_of(expected[rank][i]));
        }
      }
    });
  }
}

void expect_seekable(int64_t size, const LoaderOptions& options) {
  const RankWindows expected = windows_of_ranks(size, options, 3);
  for (int64_t rank = 0; rank < options.world; ++rank) {
    auto loader = rank_loader(std::make_shared<NumberDataset>(size), options, rank);
    const auto& global_batches = expected[static_cast<size_t>(rank)];
    const auto steps = static_cast<size_t>(loader.steps_per_epoch());
    for (size_t i = global_batches.size(); i-- > 0;) {
      loader.seek(static_cast<int64_t>(i / steps), static_cast<int64_t>(i % steps));
      EXPECT_EQ(content_of(loader.next()), content_of(global_batches[i]));
    }
    EXPECT_EQ(content_of(loader.next()), content_of(global_batches[1]));
  }
}

TEST(LoaderRanksTest, SeekIntoTheMiddleOfAnEpoch) {
  for (const int64_t size : {3, 17}) {
    for (const int64_t workers : {0, 2}) {
      for_layouts(12, [&](LoaderOptions options) {
        options.workers = workers;
        expect_seekable(size, options);
      });
    }
  }
}

TEST(LoaderRanksTest, WhatIsPaddedIsTheSampleItRepeats) {
  const LoaderOptions options{.batch = 8, .micro_batch = 4, .seed = 3, .world = 2};
  const RankWindows ranks = windows_of_ranks(13, options);
  const HostBatch& first = ranks[0][0].micro_batches[0];
  const HostBatch& last = ranks[1][1].micro_batches[0];
  ASSERT_EQ(last.valid(), 1);
  ASSERT_EQ(last.padded, 3);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(last.ids[i + 1], first.ids[i]);
    EXPECT_EQ(last.inputs.as<float>()[i + 1], first.inputs.as<float>()[i]);
    EXPECT_EQ(last.targets.as<int64_t>()[i + 1], first.targets.as<int64_t>()[i]);
  }
}

struct CountCase {
  int64_t size, micro_batch;
  bool drop_last;
  int64_t rows[4];  ///< for 1, 2, 3 and 4 ranks
};

const CountCase kCounts[] = {
    {64, 8, false, {64, 64, 64, 64}},       {96, 8, false, {96, 96, 96, 96}},
    {128, 8, false, {128, 128, 128, 128}},  {22, 4, false, {22, 22, 22, 22}},
    {99, 16, false, {99, 99, 99, 99}},      {82, 16, false, {82, 82, 82, 82}},
    {512, 16, false, {512, 512, 512, 512}}, {30, 4, false, {30, 30, 30, 30}},
    {99, 16, true, {96, 96, 96, 64}},       {512, 16, true, {512, 512, 480, 512}},
};

TEST(LoaderRanksTest, EvaluationCountsEachSampleOnce) {
  for (const CountCase& c : kCounts) {
    for (int64_t world = 1; world <= 4; ++world) {
      for (const Sharing sharing : {Sharing::kBatches, Sharing::kSlices}) {
        for (const bool even : {true, false}) {
          for (const int64_t workers : {0, 4}) {
            const LoaderOptions options{.batch = c.micro_batch * world,
                                        .micro_batch = c.micro_batch,
                                        .workers = workers,
                                        .shuffle = false,
                                        .drop_last = c.drop_last,
                                        .repeat = false,
                                        .world = world,
                                        .sharing = sharing,
                                        .even_batches = even};
            EXPECT_EQ(gathered(windows_of_ranks(c.size, options)), first_numbers(c.rows[world - 1]))
                << c.size << " samples, " << world << " ranks";
          }
        }
      }
    }
  }
}

TEST(LoaderRanksTest, AgreeOnStepsAndSamples) {
  for_layouts(12, [](LoaderOptions options) {
    for (int64_t rank = 0; rank < options.world; ++rank) {
      options.drop_last = false;
      const auto whole = rank_loader(std::make_shared<NumberDataset>(26), options, rank);
      EXPECT_EQ(whole.steps_per_epoch(), 3);
      EXPECT_EQ(whole.samples_per_epoch(), 26);
      options.drop_last = true;
      const auto dropped = rank_loader(std::make_shared<NumberDataset>(26), options, rank);
      EXPECT_EQ(dropped.steps_per_epoch(), 2);
      EXPECT_EQ(dropped.samples_per_epoch(), 24);
    }
  });
}

TEST(LoaderRanksTest, ReadOnlyTheirOwnSamples) {
  std::atomic<int64_t> reads = 0;
  auto counted = std::make_shared<ChangedDataset>(1000, [&](int64_t, Sample sample) {
    ++reads;
    return sample;
  });
  Loader loader(counted, {}, {.batch = 16, .micro_batch = 4, .rank = 3, .world = 4});
  loader.seek(5, 40);
  loader.next();
  EXPECT_EQ(reads, 4);
}

TEST(LoaderRanksTest, TooLittleToDropIsRefused) {
  for (const Sharing sharing : {Sharing::kBatches, Sharing::kSlices}) {
    try {
      Loader(std::make_shared<NumberDataset>(7), {},
             {.batch = 8, .micro_batch = 4, .drop_last = true, .world = 2, .sharing = sharing});
      FAIL() << "no error";
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(),
                   "the dataset holds 7 samples, fewer than one batch of 8 over 2 ranks");
      EXPECT_EQ(error.hint(), "lower 'batch' or set 'drop_last' to false");
    }
  }
}

const LoaderOptions kUnfit[] = {
    {.batch = 6, .micro_batch = 2, .world = 2},
    {.batch = 2, .micro_batch = 2, .world = 2},
    {.batch = 4, .micro_batch = 2, .rank = 2, .world = 2},
    {.batch = 4, .micro_batch = 2, .rank = -1, .world = 2},
    {.batch = 4, .micro_batch = 2, .world = 0},
};

TEST(LoaderRanksTest, SizesThatDoNotFitAreABug) {
  for (const LoaderOptions& options : kUnfit) {
    EXPECT_THROW(Loader(std::make_shared<NumberDataset>(8), {}, options), std::logic_error);
  }
}

}  // namespace
}  // namespace accel::loader_ranks_test
