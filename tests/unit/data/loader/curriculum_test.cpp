// Orders of samples by difficulty.
#include "data/loader/curriculum.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/base/error.h"
#include "data/loader/epoch_order.h"
#include "data/loader/loader.h"
#include "data/loader/mixture.h"
#include "data/loader/selected_samples.h"
#include "tests/unit/data/number_dataset.h"

namespace accel::curriculum_test {
namespace {

/// Sample i of n has the length and the number n - i: the last one is the easiest.
class FallingDataset final : public NumberDataset, public KnowsLengths, public RowNumbers {
 public:
  explicit FallingDataset(int64_t size) : NumberDataset(size) {}
  int64_t length(int64_t index) const override { return size() - index; }
  std::vector<double> row_numbers(const std::string& column) const override {
    EXPECT_EQ(column, "grade");
    std::vector<double> numbers;
    for (int64_t i = 0; i < size(); ++i) numbers.push_back(static_cast<double>(size() - i) / 4);
    return numbers;
  }
};

CurriculumPlan plan_until(double steps, double start, Pacing pacing = Pacing::kSqrt) {
  return {.by = kByLength, .until = steps, .until_epochs = false, .start = start, .pacing = pacing};
}

TEST(CurriculumTest, CompetenceIsThatOfThePaper) {
  const CurriculumPlan root = plan_until(100, 0.1), line = plan_until(100, 0.1, Pacing::kLinear);
  EXPECT_DOUBLE_EQ(competence(root, 0, 100), 0.1);
  EXPECT_DOUBLE_EQ(competence(root, 25, 100), std::sqrt(0.25 * (1 - 0.01) + 0.01));
  EXPECT_DOUBLE_EQ(competence(line, 25, 100), 0.1 + 0.9 * 0.25);
  EXPECT_EQ(competence(root, 100, 100), 1);
  EXPECT_EQ(competence(line, 1000, 100), 1);
}

TEST(CurriculumTest, StepsDrawFromTheEasiestShare) {
  // Shares of 10 samples in steps of 2: 2, 4, 6, 8, then all.
  const FallingDataset dataset(10);
  const Curriculum curriculum(dataset, plan_until(4, 0.2, Pacing::kLinear), 2, 5);
  EXPECT_TRUE(curriculum.restricts(0));
  EXPECT_FALSE(curriculum.restricts(1));
  const int64_t shares[] = {2, 4, 6, 8, 10};
  for (uint64_t seed = 0; seed < 20; ++seed) {
    const std::vector<int64_t> draws = curriculum.draws(seed, 0);
    ASSERT_EQ(draws.size(), 10U);
    for (size_t i = 0; i < draws.size(); ++i) {
      EXPECT_GE(draws[i] % 10, 10 - shares[i / 2]) << "draw " << i << ", seed " << seed;
    }
    for (size_t i = 0; i < draws.size(); i += 2) EXPECT_NE(draws[i] % 10, draws[i + 1] % 10);
  }
}

TEST(CurriculumTest, TheOrderIsThatOfSeedAndEpoch) {
  const FallingDataset dataset(6);
  const Curriculum curriculum(dataset, plan_until(8, 0.5), 2, 3);
  EXPECT_EQ(curriculum.draws(1, 0), (std::vector<int64_t>{5, 4, 2, 10, 16, 3}));
  EXPECT_EQ(curriculum.draws(1, 1), (std::vector<int64_t>{5, 1, 3, 11, 7, 9}));
  EXPECT_EQ(curriculum.draws(1, 0), curriculum.draws(1, 0));
  EXPECT_NE(curriculum.draws(1, 0), curriculum.draws(2, 0));
}

TEST(CurriculumTest, ARepeatedSampleIsItsNextRepetition) {
  const FallingDataset dataset(8);
  const Curriculum curriculum(dataset, plan_until(100, 0.25), 2, 4);
  const std::vector<int64_t> draws = curriculum.draws(0, 0);
  EXPECT_EQ(std::set<int64_t>(draws.begin(), draws.end()).size(), draws.size());
  std::vector<int64_t> times(8);
  for (const int64_t draw : draws) {
    EXPECT_EQ(draw / 8, times[static_cast<size_t>(draw % 8)]++);
  }
}

TEST(CurriculumTest, AShareHasOneBatchAtLeast) {
  const FallingDataset dataset(12);
  const Curriculum curriculum(dataset, plan_until(1000, 0), 4, 3);
  const std::vector<int64_t> draws = curriculum.draws(0, 0);
  const std::set<int64_t> first(draws.begin(), draws.begin() + 4);
  EXPECT_EQ(first, (std::set<int64_t>{8, 9, 10, 11}));
}

TEST(CurriculumTest, EpochsAreMultiplesOfTheirSteps) {
  const FallingDataset dataset(12);
  CurriculumPlan plan = plan_until(1.5, 0.1);
  plan.until_epochs = true;
  const Curriculum curriculum(dataset, plan, 4, 3);
  EXPECT_TRUE(curriculum.restricts(1));
  EXPECT_FALSE(curriculum.restricts(2));
}

TEST(CurriculumTest, ColumnsOfSelectedAndConcatenatedSamples) {
  std::vector<std::shared_ptr<const Dataset>> sources = {
      select_samples(std::make_shared<FallingDataset>(8), {0, 7}),  // 2 and 1/4
      std::make_shared<FallingDataset>(4)};                         // 1, 3/4, 1/2, 1/4
  const Concatenation dataset(sources);
  CurriculumPlan plan = plan_until(1000, 0);
  plan.by = "grade";
  const std::vector<int64_t> draws = Curriculum(dataset, plan, 2, 3).draws(0, 0);
  EXPECT_EQ(std::set<int64_t>(draws.begin(), draws.begin() + 2), (std::set<int64_t>{1, 5}));
}

LoaderOptions loader_options() {
  LoaderOptions options{.batch = 4, .micro_batch = 2};
  options.curriculum = plan_until(5, 0.2);
  options.seed = 3;
  return options;
}

std::vector<uint64_t> digests(Loader& loader, int64_t steps) {
  std::vector<uint64_t> out;
  for (int64_t i = 0; i < steps; ++i) out.push_back(loader.next().digest);
  return out;
}

TEST(CurriculumTest, ALoaderSeeksToAnyStepOfAnyNumberOfRanks) {
  const auto dataset = std::make_shared<FallingDataset>(13);
  Loader straight(dataset, {}, loader_options());
  const std::vector<uint64_t> all = digests(straight, 12);
  LoaderOptions of_rank = loader_options();
  of_rank.world = 2;
  of_rank.rank = 1;
  of_rank.workers = 2;
  for (int64_t step = 0; step < 12; ++step) {
    Loader resumed(dataset, {}, of_rank);
    resumed.seek(step / 4, step % 4);
    EXPECT_EQ(resumed.next().digest, all[static_cast<size_t>(step)]) << "step " << step;
  }
}

TEST(CurriculumTest, EpochsAfterItHaveTheOrdinaryOrder) {
  const auto dataset = std::make_shared<FallingDataset>(12);
  LoaderOptions plain = loader_options();
  plain.curriculum = {};
  Loader with(dataset, {}, loader_options()), without(dataset, {}, plain);
  const std::vector<uint64_t> found = digests(with, 9), wanted = digests(without, 9);
  EXPECT_NE(found[0], wanted[0]);
  EXPECT_EQ(std::vector<uint64_t>(found.begin() + 6, found.end()),
            std::vector<uint64_t>(wanted.begin() + 6, wanted.end()));
}

std::string refusal(std::shared_ptr<const Dataset> dataset, const std::string& by) {
  LoaderOptions options = loader_options();
  options.curriculum.by = by;
  try {
    Loader loader(std::move(dataset), {}, options);
  } catch (const DataError& error) {
    return std::string(error.what()) + "; " + error.hint();
  }
  return "";
}

TEST(CurriculumTest, DataWithoutDifficultyAreRefused) {
  const auto plain = std::make_shared<NumberDataset>(12);
  EXPECT_EQ(refusal(plain, kByLength),
            "'curriculum' by 'length' requires data with known sample lengths; name a column of "
            "numbers, or use texts, such as jsonl, csv or parquet");
  EXPECT_EQ(refusal(plain, "grade"),
            "'curriculum' by 'grade' requires data with columns of numbers; csv, tsv, jsonl, "
            "parquet, arrow and hf have them, and texts have 'by: length'");
  const auto mixed = std::make_shared<Mixture>(
      std::vector<std::shared_ptr<const Dataset>>{plain, plain}, std::vector<double>{1, 2});
  EXPECT_EQ(refusal(mixed, kByLength),
            "'curriculum' has no effect on datasets with a 'weight'; leave one of the two out");
}

}  // namespace
}  // namespace accel::curriculum_test
