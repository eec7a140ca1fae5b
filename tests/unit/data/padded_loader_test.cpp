// Batches of sequences of unequal length: the same for any number of ranks and workers.
#include <gtest/gtest.h>

#include <map>
#include <sstream>

#include "data/loader.h"

namespace accel {
namespace {

/// Sample i holds 1 + i % 5 tokens, all of them i.
class SequenceDataset final : public Dataset {
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
std::map<std::string, std::string> batches(int64_t world, int64_t workers, int64_t step = 0) {
  std::map<std::string, std::string> all;
  for (int64_t rank = 0; rank < world; ++rank) {
    Loader loader(std::make_shared<SequenceDataset>(), {}, options_for(world, rank, workers));
    loader.seek(0, step);
    for (int64_t i = step; i < 2 * loader.steps_per_epoch(); ++i) {
      const Window window = loader.next();
      for (const HostBatch& batch : window.micro_batches) {
        if (batch.padded > 0) continue;  // only fills the round of several ranks
        std::ostringstream place;
        place << window.epoch << "/" << window.step << "/" << batch.part;
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

}  // namespace
}  // namespace accel
