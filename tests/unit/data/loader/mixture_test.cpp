// Several datasets as one: proportions, order, and what cannot be combined.
#include "data/loader/mixture.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>

#include "core/base/error.h"
#include "data/loader/loader.h"
#include "tests/unit/data/number_dataset.h"

namespace accel::mixture_test {
namespace {

using Sources = std::vector<std::shared_ptr<const Dataset>>;

/// Sources of the given sizes; the values of source k start at 1000 k.
Sources sources_of(const std::vector<int64_t>& sizes) {
  Sources sources;
  for (const int64_t size : sizes) {
    sources.push_back(
        std::make_shared<NumberDataset>(size, 1000 * static_cast<int64_t>(sources.size())));
  }
  return sources;
}

std::vector<DataPart> parts_of(const std::vector<int64_t>& sizes,
                               const std::vector<std::optional<double>>& weights) {
  std::vector<DataPart> parts;
  for (const auto& source : sources_of(sizes)) {
    parts.push_back({source, weights[parts.size()]});
  }
  return parts;
}

std::string complaint(std::vector<DataPart> parts) {
  try {
    combine(std::move(parts));
  } catch (const DataError& error) {
    return error.what() + std::string(" | ") + error.hint();
  }
  return "";
}

int64_t value_at(const Dataset& dataset, int64_t index) {
  return dataset.sample(index).target.as<int64_t>()[0];
}

struct MixtureCase {
  std::vector<int64_t> sizes;
  std::vector<double> weights;
  std::vector<int64_t> counts;
};

const MixtureCase kMixtures[] = {
    {{10, 10}, {1, 1}, {10, 10}},
    {{100, 10}, {1, 1}, {55, 55}},
    {{10, 20, 30}, {0.7, 0.2, 0.1}, {42, 12, 6}},
    {{7, 3}, {1, 2}, {3, 7}},
    {{1, 1, 1}, {5, 5, 5}, {1, 1, 1}},
    {{50, 1}, {0.5, 0.5}, {26, 25}},
};

TEST(MixtureTest, DrawsFromEachSourceByItsWeight) {
  for (const MixtureCase& c : kMixtures) {
    const Mixture mixture(sources_of(c.sizes), c.weights);
    EXPECT_EQ(mixture.counts(), c.counts);
    std::vector<int64_t> drawn(c.sizes.size());
    for (const int64_t draw : mixture.draws(3, 4, true)) {
      ++drawn[static_cast<size_t>(value_at(mixture, draw % mixture.size()) / 1000)];
    }
    EXPECT_EQ(drawn, c.counts);
  }
}

TEST(MixtureTest, SpreadsEachSourceEvenly) {
  for (const MixtureCase& c : kMixtures) {
    const Mixture mixture(sources_of(c.sizes), c.weights);
    std::vector<double> drawn(c.sizes.size());
    double total = 0;
    for (const int64_t draw : mixture.draws(3, 4, true)) {
      ++drawn[static_cast<size_t>(value_at(mixture, draw % mixture.size()) / 1000)];
      ++total;
      for (size_t i = 0; i < drawn.size(); ++i) {
        const double share =
            static_cast<double>(c.counts[i]) * total / static_cast<double>(mixture.epoch_size());
        EXPECT_LT(std::abs(drawn[i] - share), 2.0);
      }
    }
  }
}

TEST(MixtureTest, ShowsEverySampleOfASourceBeforeAnyAgain) {
  for (const bool shuffle : {true, false}) {
    const Mixture mixture(sources_of({100, 7}), {1, 1});
    std::map<int64_t, int64_t> times;  // over several epochs
    for (int64_t epoch = 0; epoch < 5; ++epoch) {
      for (const int64_t draw : mixture.draws(1, epoch, shuffle)) {
        ++times[value_at(mixture, draw % mixture.size())];
        const auto of_source = [&](int64_t first, int64_t size) {
          std::vector<int64_t> counts;
          for (int64_t i = 0; i < size; ++i) counts.push_back(times[first + i]);
          const auto [least, most] = std::minmax_element(counts.begin(), counts.end());
          return *most - *least;
        };
        ASSERT_LE(of_source(0, 100), 1);
        ASSERT_LE(of_source(1000, 7), 1);
      }
    }
  }
}

TEST(MixtureTest, RepeatsWithinAnEpochAreDifferentDraws) {
  const Mixture mixture(sources_of({100, 7}), {1, 1});
  const auto draws = mixture.draws(1, 2, true);
  EXPECT_EQ(std::set<int64_t>(draws.begin(), draws.end()).size(), draws.size());
}

TEST(MixtureTest, OrderDependsOnSeedAndEpochAlone) {
  const Mixture mixture(sources_of({20, 30}), {1, 3});
  EXPECT_EQ(mixture.draws(1, 5, true), mixture.draws(1, 5, true));
  EXPECT_NE(mixture.draws(1, 5, true), mixture.draws(1, 6, true));
  EXPECT_NE(mixture.draws(1, 5, true), mixture.draws(2, 5, true));
  EXPECT_NE(mixture.draws(1, 5, true), mixture.draws(1, 5, false));
}

TEST(MixtureTest, SourcesOfOneSizeAreShuffledApart) {
  const Mixture mixture(sources_of({50, 50}), {1, 1});
  std::vector<int64_t> orders[2];
  for (const int64_t draw : mixture.draws(0, 0, true)) {
    const int64_t value = value_at(mixture, draw % mixture.size());
    orders[value / 1000].push_back(value % 1000);
  }
  EXPECT_NE(orders[0], orders[1]);
}

TEST(MixtureTest, WhatWasDrawnOfEachIsKnownAtEveryStep) {
  const auto mixture = combine(parts_of({40, 8}, {1, 3}));
  for (const int64_t workers : {0, 2}) {
    Loader loader(mixture, {}, {.batch = 10, .micro_batch = 5, .workers = workers, .seed = 3});
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      std::vector<int64_t> drawn(2);
      for (int64_t step = 1; step <= loader.steps_per_epoch(); ++step) {
        for (const HostBatch& batch : loader.next().micro_batches) {
          for (const int64_t id : batch.ids) ++drawn[id < 40 ? 0 : 1];
        }
        EXPECT_EQ(loader.drawn(epoch, step), drawn) << epoch << " " << step;
      }
      EXPECT_EQ(drawn, (std::vector<int64_t>{12, 36}));
    }
  }
}

TEST(MixtureTest, OfPlainPartsTheOrderDecides) {
  Loader parts(combine(parts_of({6, 2}, {{}, {}})), {}, {.batch = 4, .shuffle = false});
  EXPECT_EQ(parts.drawn(0, 1), (std::vector<int64_t>{4, 0}));
  EXPECT_EQ(parts.drawn(0, 2), (std::vector<int64_t>{6, 2}));
  Loader single(combine(parts_of({6}, {{}})), {}, {.batch = 4});
  EXPECT_TRUE(single.drawn(0, 1).empty());
}

/// From all of the first source to all of the second over 4 steps of 5 samples.
MixtureSchedule moving(MixtureCurve curve, int64_t steps_per_epoch) {
  return {.weights = {{{0, 2}, {4, 0}}, {{0, 0}, {4, 2}}},
          .curve = curve,
          .batch = 5,
          .steps_per_epoch = steps_per_epoch,
          .identity = "0 to 1"};
}

/// Draws of the second source in each step of 5.
std::vector<int64_t> of_second(const Mixture& mixture, int64_t epochs) {
  std::vector<int64_t> counts;
  for (int64_t epoch = 0; epoch < epochs; ++epoch) {
    const std::vector<int64_t> draws = mixture.draws(3, epoch, true);
    for (size_t i = 0; i < draws.size(); ++i) {
      if (i % 5 == 0) counts.push_back(0);
      counts.back() += value_at(mixture, draws[i] % mixture.size()) / 1000;
    }
  }
  return counts;
}

TEST(MixtureTest, WeightsMoveFromPointToPoint) {
  const std::vector<WeightPoint> points = {{2, 1}, {6, 3}, {8, 0}};
  const double lines[] = {1, 1, 1, 1.5, 2, 2.5, 3, 1.5, 0, 0},
               stages[] = {1, 1, 1, 1, 1, 1, 3, 3, 0, 0};
  for (int64_t step = 0; step < 10; ++step) {
    EXPECT_EQ(weight_at(points, step, MixtureCurve::kLinear), lines[step]) << step;
    EXPECT_EQ(weight_at(points, step, MixtureCurve::kStages), stages[step]) << step;
  }
}

TEST(MixtureTest, SharesFollowTheSchedule) {
  const Mixture line(sources_of({20, 5}), moving(MixtureCurve::kLinear, 5));
  // 0, 1/4, 1/2, 3/4 and 1 of 5 samples: 1.25, 3.75 and 7.5 so far. All from step 4 on.
  EXPECT_EQ(of_second(line, 2), (std::vector<int64_t>{0, 1, 3, 3, 5, 5, 5, 5, 5, 5}));
  const Mixture stages(sources_of({20, 5}), moving(MixtureCurve::kStages, 5));
  EXPECT_EQ(of_second(stages, 2), (std::vector<int64_t>{0, 0, 0, 0, 5, 5, 5, 5, 5, 5}));
}

TEST(MixtureTest, AScheduleGoesOnInTheNextEpoch) {
  // The steps of two epochs, of which the second begins in the middle of the schedule.
  const Mixture mixture(sources_of({6, 4}), moving(MixtureCurve::kLinear, 2));
  EXPECT_EQ(of_second(mixture, 3), (std::vector<int64_t>{0, 1, 3, 3, 5, 5}));
  const Mixture again(sources_of({6, 4}), moving(MixtureCurve::kLinear, 2));
  const std::vector<int64_t> third = again.draws(3, 2, true);  // without the epochs before
  EXPECT_EQ(third, mixture.draws(3, 2, true));
  EXPECT_EQ(again.draws(3, 0, true), mixture.draws(3, 0, true));
  EXPECT_NE(again.draws(4, 0, true), mixture.draws(3, 0, true));
}

TEST(MixtureTest, UnderAScheduleASourceIsShownWholeBeforeAnySampleAgain) {
  const Mixture mixture(sources_of({6, 4}), moving(MixtureCurve::kLinear, 2));
  std::map<int64_t, int64_t> times;
  for (int64_t epoch = 0; epoch < 5; ++epoch) {
    for (const int64_t draw : mixture.draws(1, epoch, true)) {
      ++times[value_at(mixture, draw % mixture.size())];
      std::vector<int64_t> second;
      for (int64_t i = 1000; i < 1004; ++i) second.push_back(times[i]);
      const auto [least, most] = std::minmax_element(second.begin(), second.end());
      ASSERT_LE(*most - *least, 1);
    }
  }
}

TEST(MixtureTest, ALoaderResumesInTheMiddleOfASchedule) {
  const auto mixture = [] {
    return combine(parts_of({30, 20}, {1, 1}), {.weights = {{{0, 1}}, {{0, 0}, {20, 9}}},
                                                .curve = MixtureCurve::kLinear,
                                                .batch = 4,
                                                .steps_per_epoch = 13,
                                                .identity = ""});
  };
  Loader whole(mixture(), {}, {.batch = 4, .workers = 2, .seed = 5});
  std::vector<std::vector<int64_t>> steps;
  for (int i = 0; i < 39; ++i) steps.push_back(whole.next().micro_batches[0].ids);
  for (const int64_t from : {1, 12, 13, 30}) {
    Loader resumed(mixture(), {}, {.batch = 4, .workers = 0, .seed = 5});
    resumed.seek(from / 13, from % 13);
    for (auto step = static_cast<size_t>(from); step < steps.size(); ++step) {
      ASSERT_EQ(resumed.next().micro_batches[0].ids, steps[step]) << from << " " << step;
    }
  }
}

TEST(MixtureTest, ProportionsAreSaid) {
  EXPECT_EQ(Mixture(sources_of({10, 30}), {2, 1}).proportions(), "67.5 % : 32.5 %");
  EXPECT_EQ(Mixture(sources_of({20, 5}), moving(MixtureCurve::kLinear, 5)).proportions(),
            "100 % : 0 % at step 0, 0 % : 100 % at step 4");
  EXPECT_EQ(Mixture(sources_of({20, 5}), moving(MixtureCurve::kLinear, 5)).fingerprint(),
            "0-20+1000-1005 as 0 to 1");
}

TEST(CombineTest, OneDatasetStaysItself) {
  auto parts = parts_of({5}, {{}});
  const Dataset* only = parts[0].dataset.get();
  EXPECT_EQ(combine(std::move(parts)).get(), only);
}

TEST(CombineTest, WithoutWeightsEachSampleComesOnce) {
  const auto all = combine(parts_of({3, 2}, {{}, {}}));
  EXPECT_EQ(dynamic_cast<const EpochOrder*>(all.get()), nullptr);
  ASSERT_EQ(all->size(), 5);
  std::vector<int64_t> values;
  for (int64_t i = 0; i < 5; ++i) values.push_back(value_at(*all, i));
  EXPECT_EQ(values, (std::vector<int64_t>{0, 1, 2, 1000, 1001}));
}

TEST(CombineTest, FingerprintNamesTheProportions) {
  EXPECT_EQ(combine(parts_of({10, 30}, {1, 1}))->fingerprint(), "0-10+1000-1030 as 20:20");
}

TEST(CombineTest, WeightsAreForAllOrNone) {
  EXPECT_EQ(complaint(parts_of({5, 5, 5}, {1, {}, 2})),
            "2 of 3 datasets have a 'weight' | set 'weight' for all of them, or for none to use "
            "each sample once per epoch");
}

TEST(CombineTest, AWeightTooSmallToCountIsRefused) {
  EXPECT_EQ(complaint(parts_of({5, 5}, {1, 0.001})),
            "weight 0.001 gives dataset 2 none of the 10 samples of an epoch | "
            "raise its 'weight' or leave it out");
}

TEST(CombineTest, AnEmptyDatasetIsRefused) {
  EXPECT_EQ(complaint(parts_of({5, 0}, {{}, {}})), "dataset 2 holds no samples | ");
}

/// A dataset that claims another shape.
class ShapedDataset final : public NumberDataset {
 public:
  explicit ShapedDataset(DataShape shape) : NumberDataset(3), shape_(std::move(shape)) {}
  DataShape shape() const override { return shape_; }

 private:
  DataShape shape_;
};

TEST(CombineTest, DatasetsMustHoldSamplesOfOneKind) {
  const DataShape base = NumberDataset(1).shape();
  DataShape inputs = base, type = base, targets = base, classes = base, vocab = base, names = base;
  inputs.input = {3};
  type.input_type = DType::kI64;
  targets.target = {2};
  classes.classes = 7;
  vocab.vocab = 65;
  names.labels = {"cat", "dog"};
  const std::pair<DataShape, const char*> cases[] = {
      {inputs, "the inputs of dataset 2 are F32 [3], but those of dataset 1 are F32 [2]"},
      {type, "the inputs of dataset 2 are I64 [2], but those of dataset 1 are F32 [2]"},
      {targets, "the targets of dataset 2 are I64 [2], but those of dataset 1 are I64 []"},
      {classes, "the classes of dataset 2 are 7, but those of dataset 1 are 10"},
      {vocab, "the tokens of dataset 2 are 65, but those of dataset 1 are 0"},
      {names, "the labels of dataset 2 are [cat, dog], but those of dataset 1 are []"},
  };
  for (const auto& [shape, message] : cases) {
    EXPECT_EQ(complaint({{std::make_shared<NumberDataset>(3), {}},
                         {std::make_shared<ShapedDataset>(shape), {}}}),
              std::string(message) +
                  " | datasets that are trained on together must hold samples of one kind");
  }
}

}  // namespace
}  // namespace accel::mixture_test
