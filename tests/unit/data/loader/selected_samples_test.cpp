// Samples of a dataset selected by their indices.
#include "data/loader/selected_samples.h"

#include <gtest/gtest.h>

#include "data/loader/loader.h"
#include "tests/unit/data/number_dataset.h"

namespace accel::selected_samples_test {
namespace {

/// A NumberDataset with names, lengths and columns.
class RichDataset final : public NumberDataset, public KnowsLengths {
 public:
  using NumberDataset::NumberDataset;
  int64_t length(int64_t index) const override { return 10 * index; }
  std::string name(int64_t index) const override { return "row " + std::to_string(index); }
  std::optional<Columns> columns() const override {
    Array inputs(DType::kF32, {size(), 2}), targets(DType::kI64, {size()});
    for (int64_t i = 0; i < size(); ++i) {
      const auto value = static_cast<float>(i);
      inputs.mutable_as<float>()[static_cast<size_t>(2 * i)] = value;
      inputs.mutable_as<float>()[static_cast<size_t>(2 * i + 1)] = value;
      targets.mutable_as<int64_t>()[static_cast<size_t>(i)] = i;
    }
    return Columns{inputs, targets, false};
  }
};

std::vector<int64_t> labels_of(const HostBatch& batch) {
  const auto labels = batch.targets.as<int64_t>();
  return {labels.begin(), labels.end()};
}

TEST(SelectedSamplesTest, EachPropertyIsThatOfTheSourcesSample) {
  const auto data = select_samples(std::make_shared<RichDataset>(9), {1, 4, 8});
  ASSERT_EQ(data->size(), 3);
  EXPECT_EQ(data->sample(1).target.as<int64_t>()[0], 4);
  EXPECT_EQ(data->name(2), "row 8");
  EXPECT_EQ(lengths_of(*data), (std::vector<int64_t>{10, 40, 80}));
  EXPECT_EQ(data->shape().classes, 10);
}

TEST(SelectedSamplesTest, AllSamplesAreTheDatasetItself) {
  const std::shared_ptr<const Dataset> all = std::make_shared<NumberDataset>(3);
  EXPECT_EQ(select_samples(all, all_rows(*all)), all);
}

TEST(SelectedSamplesTest, TheFingerprintFollowsTheRows) {
  const std::shared_ptr<const Dataset> all = std::make_shared<NumberDataset>(9);
  EXPECT_EQ(select_samples(all, {0, 1})->fingerprint(), "0-9[:2]");
  const std::string some = select_samples(all, {0, 2})->fingerprint();
  EXPECT_TRUE(some.starts_with("0-9[2:")) << some;
  EXPECT_EQ(select_samples(all, {0, 2})->fingerprint(), some);
  EXPECT_NE(select_samples(all, {0, 3})->fingerprint(), some);
}

TEST(SelectedSamplesTest, BatchesFromColumnsAreThoseOfSamples) {
  const std::vector<int64_t> rows = {1, 2, 5, 7, 8};
  Loader gathered(select_samples(std::make_shared<RichDataset>(9), rows), {},
                  {.batch = 2, .micro_batch = 2, .seed = 3});
  Loader single(select_samples(std::make_shared<NumberDataset>(9), rows), {},
                {.batch = 2, .micro_batch = 2, .seed = 3});
  for (int step = 0; step < 6; ++step) {
    const GlobalBatch a = gathered.next(), b = single.next();
    EXPECT_EQ(a.digest, b.digest);
    EXPECT_EQ(a.micro_batches[0].ids, b.micro_batches[0].ids);
    EXPECT_EQ(labels_of(a.micro_batches[0]), labels_of(b.micro_batches[0]));
    const int64_t id = a.micro_batches[0].ids[0];
    EXPECT_EQ(labels_of(a.micro_batches[0])[0], rows[static_cast<size_t>(id)]);
    EXPECT_EQ(a.micro_batches[0].inputs.as<float>()[0],
              static_cast<float>(rows[static_cast<size_t>(id)]));
  }
}

}  // namespace
}  // namespace accel::selected_samples_test
