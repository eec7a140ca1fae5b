// Announcements of samples to datasets that fetch them, and the order with locality.
#include "data/loader/read_ahead.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "core/base/error.h"
#include "data/loader/epoch_sampler.h"
#include "data/loader/loader.h"
#include "data/loader/mixture.h"
#include "data/loader/selected_samples.h"
#include "tests/unit/data/number_dataset.h"
#include "tests/unit/formats/test_bytes.h"

namespace accel::read_ahead_test {
namespace {

/// Records announcements, -1 for forget_ahead().
class AheadDataset final : public NumberDataset, public ReadsAhead {
 public:
  AheadDataset(int64_t size, int64_t ahead, bool exceeds = false)
      : NumberDataset(size), ahead_(ahead), exceeds_(exceeds) {}

  int64_t samples_ahead() const override { return ahead_; }
  void read_ahead(std::span<const int64_t> samples) const override {
    announced.insert(announced.end(), samples.begin(), samples.end());
  }
  void forget_ahead() const override { announced.push_back(-1); }
  bool exceeds_cache() const override { return exceeds_; }
  void read_singly() const override { ++singly; }

  /// The number of samples to announce from now on.
  void set_ahead(int64_t ahead) { ahead_ = ahead; }

  mutable std::vector<int64_t> announced;
  mutable int singly = 0;

 private:
  int64_t ahead_;
  bool exceeds_;
};

using Ids = std::vector<int64_t>;

Ids ids_of(const GlobalBatch& batch) {
  Ids out;
  for (const HostBatch& each : batch.micro_batches) {
    out.insert(out.end(), each.ids.begin(), each.ids.end());
  }
  return out;
}

TEST(ReadAheadTest, TheLoaderAnnouncesEachBatchOnceInOrder) {
  const auto dataset = std::make_shared<AheadDataset>(12, 4);
  Loader loader(dataset, {}, {.batch = 2, .micro_batch = 2, .prefetch = 1, .seed = 5});
  dataset->announced.clear();
  Ids read;
  for (int i = 0; i < 9; ++i) {
    const Ids batch = ids_of(loader.next());
    read.insert(read.end(), batch.begin(), batch.end());
    // This batch and two more, across the end of the epoch.
    ASSERT_EQ(dataset->announced.size(), read.size() + 4);
  }
  EXPECT_TRUE(std::equal(read.begin(), read.end(), dataset->announced.begin()));
  dataset->announced.clear();
  loader.seek(1, 3);
  const Ids batch = ids_of(loader.next());
  EXPECT_EQ(batch, Ids(dataset->announced.begin() + 1, dataset->announced.begin() + 3));
  EXPECT_EQ(dataset->announced.front(), -1);
}

TEST(ReadAheadTest, SamplesAtHandAreNotAnnounced) {
  const auto dataset = std::make_shared<AheadDataset>(20, 4);
  Loader loader(dataset, {}, {.batch = 2, .micro_batch = 2, .prefetch = 1, .seed = 5});
  loader.next();
  dataset->announced.clear();
  dataset->set_ahead(0);
  for (int i = 0; i < 4; ++i) loader.next();
  EXPECT_TRUE(dataset->announced.empty());
  dataset->set_ahead(4);  // the cache has lost some
  Ids read;
  for (int i = 0; i < 3; ++i) {
    const Ids batch = ids_of(loader.next());
    read.insert(read.end(), batch.begin(), batch.end());
  }
  ASSERT_EQ(dataset->announced.size(), read.size() + 4);
  EXPECT_TRUE(std::equal(read.begin(), read.end(), dataset->announced.begin()));
}

TEST(ReadAheadTest, ARankAnnouncesItsOwnSamplesAlsoFromWorkers) {
  const auto dataset = std::make_shared<AheadDataset>(32, 4);
  LoaderOptions options{.batch = 4, .micro_batch = 2, .workers = 3, .prefetch = 1, .seed = 5};
  options.rank = 1;
  options.world = 2;
  options.repeat = false;
  Loader loader(dataset, {}, options);
  dataset->announced.clear();
  Ids read;
  while (loader.has_next()) {
    const Ids batch = ids_of(loader.next());
    read.insert(read.end(), batch.begin(), batch.end());
  }
  EXPECT_EQ(read.size(), 16U);
  EXPECT_EQ(dataset->announced, read);
}

TEST(ReadAheadTest, CombinationsPassItOn) {
  const auto a = std::make_shared<AheadDataset>(4, 3),
             b = std::make_shared<AheadDataset>(4, 9, true);
  const auto plain = std::make_shared<NumberDataset>(4);
  const Concatenation all({a, plain, b});
  EXPECT_EQ(samples_ahead(all), 9);
  EXPECT_TRUE(exceeds_cache(all));
  const Ids samples = {9, 1, 5, 8, 0};
  read_ahead(all, samples);
  EXPECT_EQ(a->announced, (Ids{1, 0}));
  EXPECT_EQ(b->announced, (Ids{1, 0}));
  forget_ahead(all);
  EXPECT_EQ(b->announced, (Ids{1, 0, -1}));
  const Mixture mixture({a, b}, {1.0, 1.0});
  read_ahead(mixture, Ids{7});
  EXPECT_EQ(b->announced.back(), 3);
  const auto selected = select_samples(b, {2, 3});
  EXPECT_EQ(samples_ahead(*selected), 9);
  EXPECT_TRUE(exceeds_cache(*selected));
  read_ahead(*selected, Ids{0});
  EXPECT_EQ(b->announced.back(), 2);
  read_singly(all);
  read_singly(mixture);
  read_singly(*selected);
  EXPECT_EQ(std::pair(a->singly, b->singly), std::pair(2, 3));
  EXPECT_EQ(samples_ahead(*plain), 0);
  EXPECT_FALSE(exceeds_cache(Concatenation({a, plain})));
}

TEST(ReadAheadTest, AWholeShuffleBeyondTheCacheIsSaid) {
  const auto dataset = std::make_shared<AheadDataset>(32, 4, true);
  const auto said = [&](const LoaderOptions& options) {
    testing::internal::CaptureStderr();
    const Loader loader(dataset, {}, options);
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said({.batch = 2}),
            "warning: the data exceed 'streaming.cache_limit' and are shuffled as a whole, so that "
            "each sample beyond the cache is a request in every epoch: set "
            "'data.loader.shuffle_block_size', or raise the limit\n");
  EXPECT_EQ(dataset->singly, 1);
  EXPECT_EQ(said({.batch = 2, .shuffle = false}), "");
  EXPECT_EQ(said({.batch = 2, .shuffle_block_size = 16}), "");
  EXPECT_EQ(dataset->singly, 1);
}

TEST(BlockPermutationTest, KeepsRunsInTheirBlocks) {
  for (const int64_t n : {1, 31, 1000, 1024}) {
    constexpr int64_t kBlock = 64, kRun = 4;
    const Ids order = block_permutation(n, kBlock, 7, 2);
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), static_cast<size_t>(n));
    for (int64_t first = 0; first < n; first += kBlock) {
      std::set<int64_t> runs;
      for (int64_t i = first; i < std::min(n, first + kBlock); ++i) {
        runs.insert(order[static_cast<size_t>(i)] / kRun);
      }
      EXPECT_LE(runs.size(), 18U);  // 16, and those that the short last run shifts
    }
  }
  EXPECT_EQ(block_permutation(1000, 64, 7, 2), block_permutation(1000, 64, 7, 2));
  EXPECT_NE(block_permutation(1000, 64, 7, 2), block_permutation(1000, 64, 7, 3));
  EXPECT_NE(block_permutation(1000, 64, 7, 2), block_permutation(1000, 64, 8, 2));
}

TEST(BlockPermutationTest, BlocksOfDifferentEpochsDiffer) {
  constexpr int64_t kBlock = 16;  // of runs of one sample, in the order of epoch_permutation()
  const auto inside = [&](int64_t epoch, int64_t block) {
    const Ids runs = epoch_permutation(64, 7, epoch);
    const Ids order = block_permutation(64, kBlock, 7, epoch);
    Ids out;
    for (int64_t i = block * kBlock; i < (block + 1) * kBlock; ++i) {
      const auto place = std::find(runs.begin(), runs.end(), order[static_cast<size_t>(i)]);
      out.push_back(place - runs.begin() - block * kBlock);
    }
    return out;
  };
  std::set<Ids> all;
  for (int64_t epoch = 0; epoch < 4; ++epoch) {
    for (int64_t block = 0; block < 4; ++block) all.insert(inside(epoch, block));
  }
  EXPECT_EQ(all.size(), 16U);
}

TEST(BlockPermutationTest, IsTheOrderOfTheSampler) {
  const auto dataset = std::make_shared<NumberDataset>(100);
  EpochSampler sampler(dataset, {.seed = 3, .block = 32});
  const SampleOrder order = sampler.of(4);
  const Ids wanted = block_permutation(100, 32, 3, 4);
  for (int64_t i = 0; i < 100; ++i) EXPECT_EQ(order[i], wanted[static_cast<size_t>(i)]);
  const auto mixture = std::make_shared<Mixture>(
      std::vector<std::shared_ptr<const Dataset>>{dataset, dataset}, std::vector<double>{1, 2});
  EXPECT_EQ(complaint([&] { EpochSampler(mixture, {.block = 32}); }),
            "'shuffle_block_size' has no effect on datasets with a 'weight'\n"
            "leave one of the two out");
}

}  // namespace
}  // namespace accel::read_ahead_test
