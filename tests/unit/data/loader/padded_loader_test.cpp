// Batches of sequences of unequal length: the same for any number of ranks and workers.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>

#include "core/base/error.h"
#include "data/loader/epoch_order.h"
#include "data/loader/loader.h"
#include "data/loader/mixture.h"
#include "data/loader/selected_samples.h"
#include "tests/unit/data/number_dataset.h"

namespace accel::padded_loader_test {
namespace {

/// Sample i holds 1 + i % 5 tokens, all of them i.
class SequenceDataset final : public Dataset, public KnowsLengths {
 public:
  int64_t size() const override { return 44; }
  Sample sample(int64_t index) const override {
    const std::vector<int64_t> tokens(static_cast<size_t>(1 + index % 5), index);
    const Shape shape = {static_cast<int64_t>(tokens.size())};
    return {Array::of<int64_t>(DType::kI64, shape, std::span(tokens)), Array::label(index % 2)};
  }
  DataShape shape() const override {
    DataShape shape{.input = {5}, .input_type = DType::kI64, .classes = 2, .vocab = 100};
    shape.padding = Padding{.input = 99};
    return shape;
  }
  std::string fingerprint() const override { return "sequences"; }
  int64_t length(int64_t index) const override { return 1 + index % 5; }
};

LoaderOptions options_for(int64_t world, int64_t rank, int64_t workers) {
  LoaderOptions options;
  options.batch = 16;
  options.micro_batch = 4;
  options.world = world;
  options.rank = rank;
  options.workers = workers;
  options.seed = 3;
  return options;
}

std::string text_of(const HostBatch& batch) {
  std::ostringstream text;
  text << to_string(batch.inputs.shape()) << " of";
  for (const int64_t length : batch.lengths.as<int64_t>()) text << " " << length;
  text << ":";
  for (const int64_t token : batch.inputs.as<int64_t>()) text << " " << token;
  return text.str();
}

/// Every micro-batch of two epochs by epoch, step and part, as all ranks make them; from `step` on.
std::map<std::string, std::string> batches(int64_t world, int64_t workers, int64_t step = 0,
                                           bool grouped = false) {
  std::map<std::string, std::string> all;
  for (int64_t rank = 0; rank < world; ++rank) {
    LoaderOptions options = options_for(world, rank, workers);
    options.group_by_length = grouped;
    Loader loader(std::make_shared<SequenceDataset>(), {}, options);
    loader.seek(0, step);
    for (int64_t i = step; i < 2 * loader.steps_per_epoch(); ++i) {
      const GlobalBatch global_batch = loader.next();
      for (const HostBatch& batch : global_batch.micro_batches) {
        if (batch.padded > 0) continue;  // only fills the round of several ranks
        std::ostringstream place;
        place << global_batch.epoch << "/" << global_batch.step << "/" << batch.micro_batch_index;
        all[place.str()] = text_of(batch);
      }
    }
  }
  return all;
}

TEST(PaddedLoaderTest, EveryMicroBatchIsFilledToItsOwnLongest) {
  Loader loader(std::make_shared<SequenceDataset>(), {}, options_for(1, 0, 0));
  for (int64_t i = 0; i < 6; ++i) {
    for (const HostBatch& batch : loader.next().micro_batches) {
      const int64_t width = batch.inputs.shape()[1];
      int64_t longest = 0;
      for (size_t row = 0; row < batch.ids.size(); ++row) {
        const int64_t length = 1 + batch.ids[row] % 5;
        EXPECT_EQ(batch.lengths.as<int64_t>()[row], length);
        longest = std::max(longest, length);
        for (int64_t at = 0; at < width; ++at) {
          EXPECT_EQ(batch.inputs
                        .as<int64_t>()[row * static_cast<size_t>(width) + static_cast<size_t>(at)],
                    at < length ? batch.ids[row] : 99);
        }
      }
      EXPECT_EQ(width, longest);
    }
  }
}

TEST(PaddedLoaderTest, RanksAndWorkersChangeNothing) {
  const auto wanted = batches(1, 0);
  ASSERT_EQ(wanted.size(), 22u);
  EXPECT_EQ(batches(1, 2), wanted);
  for (const auto& [place, batch] : batches(2, 0)) EXPECT_EQ(batch, wanted.at(place)) << place;
  for (const auto& [place, batch] : batches(4, 2)) EXPECT_EQ(batch, wanted.at(place)) << place;
}

TEST(PaddedLoaderTest, ALoaderGoesOnWithTheSameBatches) {
  const auto wanted = batches(1, 0);
  for (const auto& [place, batch] : batches(1, 0, 2)) EXPECT_EQ(batch, wanted.at(place)) << place;
}

TEST(PaddedLoaderTest, GroupsAreTheSameForRanksAndWorkersAndFromAnyStep) {
  const auto wanted = batches(1, 0, 0, true);
  ASSERT_EQ(wanted.size(), 22u);
  EXPECT_NE(wanted, batches(1, 0));
  for (const auto& [place, batch] : batches(2, 2, 0, true)) EXPECT_EQ(batch, wanted.at(place));
  for (const auto& [place, batch] : batches(4, 0, 0, true)) EXPECT_EQ(batch, wanted.at(place));
  for (const auto& [place, batch] : batches(1, 2, 2, true)) EXPECT_EQ(batch, wanted.at(place));
}

/// 4000 sequences, most of them short and some long, as texts are.
class MixedLengths final : public Dataset, public KnowsLengths {
 public:
  int64_t size() const override { return 4000; }
  Sample sample(int64_t index) const override {
    return {Array(DType::kI64, {length(index)}), Array::label(0)};
  }
  DataShape shape() const override {
    return {.input = {512}, .input_type = DType::kI64, .padding = Padding{}};
  }
  std::string fingerprint() const override { return "mixed"; }
  int64_t length(int64_t index) const override {
    return 8 + 504 / (1 + (index * 2654435761) % 1000 / 20);
  }
};

/// The share of the tokens of an epoch that are fill.
double fill_of(const std::shared_ptr<const Dataset>& dataset, bool grouped) {
  Loader loader(dataset, {}, {.batch = 32, .micro_batch = 8, .group_by_length = grouped});
  int64_t all = 0, real = 0;
  for (int64_t step = 0; step < loader.steps_per_epoch(); ++step) {
    for (const HostBatch& batch : loader.next().micro_batches) {
      all += batch.inputs.count();
      for (const int64_t length : batch.lengths.as<int64_t>()) real += length;
    }
  }
  return 1 - static_cast<double>(real) / static_cast<double>(all);
}

TEST(PaddedLoaderTest, GroupsNeedLittleFill) {
  const auto mixed = std::make_shared<MixedLengths>();
  EXPECT_GT(fill_of(mixed, false), 0.6);
  EXPECT_LT(fill_of(mixed, true), 0.06);
}

TEST(PaddedLoaderTest, GroupsHoldEachDrawOfAMixtureOnce) {
  const auto mixture =
      combine({{std::make_shared<SequenceDataset>(), 1.0},
               {select_samples(std::make_shared<SequenceDataset>(), {0, 1, 2, 3, 4, 5, 6}), 3.0}});
  EpochSampler plain(mixture, {.seed = 5}), grouped(mixture, {.seed = 5, .length_group = 4});
  std::multiset<int64_t> wanted, found;
  for (int64_t i = 0; i < plain.size(); ++i) {
    wanted.insert(plain.of(2)[i]);
    found.insert(grouped.of(2)[i]);
  }
  EXPECT_EQ(found, wanted);
}

TEST(PaddedLoaderTest, GroupsTakeDataThatKnowsItsLengths) {
  const std::shared_ptr<const Dataset> unknown[] = {
      std::make_shared<NumberDataset>(9),
      select_samples(std::make_shared<NumberDataset>(9), {0, 1, 2, 3}),
      combine({{std::make_shared<NumberDataset>(9), {}}, {std::make_shared<NumberDataset>(9), {}}}),
  };
  for (const auto& dataset : unknown) {
    try {
      Loader(dataset, {}, {.batch = 3, .group_by_length = true});
      ADD_FAILURE() << dataset->fingerprint();
    } catch (const DataError& error) {
      EXPECT_STREQ(error.what(), "'group_by_length' requires data with known sample lengths");
      EXPECT_EQ(error.hint(), "leave it out, or use texts, such as jsonl, csv or parquet");
    }
  }
}

}  // namespace
}  // namespace accel::padded_loader_test
