// Windows of samples: the same whoever makes them and from wherever one starts.
#include "data/loader/loader.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <set>
#include <thread>

#include "core/base/error.h"
#include "data/loader/epoch_order.h"
#include "data/loader/mixture.h"
#include "tests/unit/data/number_dataset.h"

namespace accel::loader_test {
namespace {

using Transforms = std::vector<std::unique_ptr<Transform>>;

/// Adds random noise, so that a wrong stream of chance shows.
class Noise final : public Transform {
 public:
  Sample apply(Sample sample, SampleRng& rng) const override {
    const float value = sample.input.as<float>()[0];
    const float pair[] = {value + static_cast<float>(rng.uniform()), value};
    return {Array::of<float>(DType::kF32, {2}, pair), sample.target};
  }
  DataShape shape() const override { return {.input = {2}, .target = {}, .labels = {}}; }
};

Loader loader_of(std::shared_ptr<const Dataset> dataset, const LoaderOptions& options) {
  Transforms transforms;
  transforms.push_back(std::make_unique<Noise>());
  return Loader(std::move(dataset), std::move(transforms), options);
}

/// Everything a global batch holds, as one comparable text.
std::string text_of(const GlobalBatch& global_batch) {
  std::string text = std::to_string(global_batch.epoch) + "/" + std::to_string(global_batch.step) +
                     "/" + std::to_string(global_batch.samples) + "/" +
                     std::to_string(global_batch.digest);
  for (const HostBatch& batch : global_batch.micro_batches) {
    text += "|" + to_string(batch.inputs.shape());
    for (const int64_t id : batch.ids) text += " " + std::to_string(id);
    for (const float value : batch.inputs.as<float>()) text += " " + std::to_string(value);
    for (const int64_t value : batch.targets.as<int64_t>()) text += " " + std::to_string(value);
  }
  return text;
}

std::vector<std::string> windows_of(Loader& loader, int64_t count) {
  std::vector<std::string> all;
  for (int64_t i = 0; i < count; ++i) all.push_back(text_of(loader.next()));
  return all;
}

TEST(LoaderTest, AStepOutsideTheEpochIsABug) {
  auto loader = loader_of(std::make_shared<NumberDataset>(8), {.batch = 4, .micro_batch = 2});
  try {
    loader.seek(1, 3);
    FAIL() << "it was found";
  } catch (const std::out_of_range& error) {
    EXPECT_STREQ(error.what(), "step 3 of epoch 1 is outside its 2 steps");
  }
}

TEST(LoaderTest, TheMemoryOfAWindowThatIsDoneMakesNoDifference) {
  const LoaderOptions options = {.batch = 4, .micro_batch = 2};
  auto fresh = loader_of(std::make_shared<NumberDataset>(11), options);
  auto reusing = loader_of(std::make_shared<NumberDataset>(11), options);
  GlobalBatch global_batch;
  for (const std::string& text : windows_of(fresh, 7)) {
    const HostBatch* const before = global_batch.micro_batches.data();
    global_batch = reusing.next(std::move(global_batch));
    EXPECT_EQ(text_of(global_batch), text);
    EXPECT_TRUE(!before || global_batch.micro_batches.data() == before);
  }
}

std::vector<int64_t> ids_of_epoch(Loader& loader) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < loader.steps_per_epoch(); ++i) {
    for (const HostBatch& batch : loader.next().micro_batches) {
      ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
    }
  }
  return ids;
}

struct ShapeCase {
  int64_t size, batch, micro_batch;
  bool drop_last;
  std::vector<std::vector<int64_t>> global_batches;  ///< sizes of the micro-batches of each step
};

const ShapeCase kShapes[] = {
    {8, 4, 4, false, {{4}, {4}}},
    {10, 4, 2, false, {{2, 2}, {2, 2}, {2}}},
    {11, 4, 2, false, {{2, 2}, {2, 2}, {2, 1}}},
    {11, 4, 2, true, {{2, 2}, {2, 2}}},
    {3, 8, 2, false, {{2, 1}}},
    {1, 1, 1, false, {{1}}},
    {5, 1, 1, true, {{1}, {1}, {1}, {1}, {1}}},
};

TEST(LoaderTest, CutsAnEpochIntoWindowsAndMicroBatches) {
  for (const ShapeCase& c : kShapes) {
    auto loader =
        loader_of(std::make_shared<NumberDataset>(c.size),
                  {.batch = c.batch, .micro_batch = c.micro_batch, .drop_last = c.drop_last});
    ASSERT_EQ(loader.steps_per_epoch(), static_cast<int64_t>(c.global_batches.size()));
    for (int64_t epoch = 0; epoch < 2; ++epoch) {
      for (size_t step = 0; step < c.global_batches.size(); ++step) {
        const GlobalBatch global_batch = loader.next();
        EXPECT_EQ(global_batch.epoch, epoch);
        EXPECT_EQ(global_batch.step, static_cast<int64_t>(step));
        std::vector<int64_t> sizes;
        int64_t samples = 0;
        for (const HostBatch& batch : global_batch.micro_batches) {
          sizes.push_back(static_cast<int64_t>(batch.ids.size()));
          EXPECT_EQ(batch.inputs.shape()[0], sizes.back());
          samples += sizes.back();
        }
        EXPECT_EQ(sizes, c.global_batches[step]);
        EXPECT_EQ(global_batch.samples, samples);
      }
    }
  }
}

TEST(LoaderTest, VisitsTheOrderOfAcceleratesSampler) {
  auto loader =
      loader_of(std::make_shared<NumberDataset>(23), {.batch = 4, .micro_batch = 2, .seed = 42});
  for (int64_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_EQ(ids_of_epoch(loader), epoch_permutation(23, 42, epoch));
  }
}

TEST(LoaderTest, WithoutShufflingKeepsTheDatasetsOrder) {
  auto loader = loader_of(std::make_shared<NumberDataset>(5),
                          {.batch = 2, .micro_batch = 2, .shuffle = false});
  EXPECT_EQ(ids_of_epoch(loader), (std::vector<int64_t>{0, 1, 2, 3, 4}));
  EXPECT_EQ(ids_of_epoch(loader), (std::vector<int64_t>{0, 1, 2, 3, 4}));
}

std::vector<std::shared_ptr<const Dataset>> datasets() {
  auto number = [](int64_t size) { return std::make_shared<NumberDataset>(size); };
  return {
      number(23), number(8), number(1),
      std::make_shared<Mixture>(std::vector<std::shared_ptr<const Dataset>>{number(19), number(4)},
                                std::vector<double>{1, 1})};
}

TEST(LoaderTest, WorkersAndPrefetchChangeNothing) {
  for (const auto& dataset : datasets()) {
    LoaderOptions options{.batch = 6, .micro_batch = 2, .seed = 9};
    auto inline_loader = loader_of(dataset, options);
    const auto expected = windows_of(inline_loader, 3 * inline_loader.steps_per_epoch());
    for (const int64_t workers : {1, 2, 5}) {
      for (const int64_t prefetch : {1, 2, 7}) {
        options.workers = workers;
        options.prefetch = prefetch;
        auto loader = loader_of(dataset, options);
        EXPECT_EQ(windows_of(loader, static_cast<int64_t>(expected.size())), expected);
      }
    }
  }
}

TEST(LoaderTest, SeekingEqualsIterating) {
  for (const auto& dataset : datasets()) {
    for (const int64_t workers : {0, 2}) {
      const LoaderOptions options{.batch = 4, .micro_batch = 2, .workers = workers, .seed = 1};
      auto loader = loader_of(dataset, options);
      const int64_t steps = loader.steps_per_epoch();
      const auto expected = windows_of(loader, 3 * steps);
      auto seeker = loader_of(dataset, options);
      // Backwards, so that nothing left over from before can help.
      for (int64_t i = 3 * steps - 1; i >= 0; --i) {
        seeker.seek(i / steps, i % steps);
        EXPECT_EQ(text_of(seeker.next()), expected[static_cast<size_t>(i)]);
        if (i + 1 < 3 * steps) {
          EXPECT_EQ(text_of(seeker.next()), expected[static_cast<size_t>(i) + 1]);
        }
      }
      seeker.seek(0, steps);
      EXPECT_EQ(text_of(seeker.next()), expected[static_cast<size_t>(steps)]);
    }
  }
}

TEST(LoaderTest, SeekingReadsOnlyWhatItGives) {
  std::atomic<int64_t> reads = 0;
  auto counted = std::make_shared<ChangedDataset>(1000, [&](int64_t, Sample sample) {
    ++reads;
    return sample;
  });
  Loader loader(counted, {}, {.batch = 4, .micro_batch = 4});
  loader.seek(7, 200);
  loader.next();
  EXPECT_EQ(reads, 4);
}

TEST(LoaderTest, PrefetchingIsBounded) {
  std::atomic<int64_t> reads = 0;
  auto counted = std::make_shared<ChangedDataset>(1000, [&](int64_t, Sample sample) {
    ++reads;
    return sample;
  });
  Loader loader(counted, {}, {.batch = 4, .micro_batch = 2, .workers = 2, .prefetch = 3});
  loader.next();
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  EXPECT_LE(reads, 4 + 3 * 4);
}

TEST(LoaderTest, EachSampleComesOnceAnEpoch) {
  for (const int64_t size : {1, 2, 7, 64, 101}) {
    for (const int64_t batch : {1, 4, 32}) {
      auto loader = loader_of(std::make_shared<NumberDataset>(size),
                              {.batch = batch, .micro_batch = batch, .workers = 2, .seed = 3});
      for (int epoch = 0; epoch < 2; ++epoch) {
        auto ids = ids_of_epoch(loader);
        std::sort(ids.begin(), ids.end());
        ASSERT_EQ(static_cast<int64_t>(ids.size()), size);
        for (int64_t i = 0; i < size; ++i) EXPECT_EQ(ids[static_cast<size_t>(i)], i);
      }
    }
  }
}

TEST(LoaderTest, DigestSeesOrderButNotMicroBatches) {
  std::set<uint64_t> digests;
  for (const int64_t micro_batch : {1, 2, 4}) {
    auto loader = loader_of(std::make_shared<NumberDataset>(40),
                            {.batch = 4, .micro_batch = micro_batch, .seed = 5});
    digests.insert(loader.next().digest);
  }
  EXPECT_EQ(digests.size(), 1u);
  auto other =
      loader_of(std::make_shared<NumberDataset>(40), {.batch = 4, .micro_batch = 4, .seed = 6});
  digests.insert(other.next().digest);
  EXPECT_EQ(digests.size(), 2u);
}

TEST(LoaderTest, AugmentationChangesWithTheEpochAndTheRepeat) {
  const Transforms none;
  auto mixture = std::make_shared<Mixture>(
      std::vector<std::shared_ptr<const Dataset>>{std::make_shared<NumberDataset>(9),
                                                  std::make_shared<NumberDataset>(1, 1000)},
      std::vector<double>{1, 1});
  auto loader = loader_of(mixture, {.batch = 10, .micro_batch = 10});
  std::set<float> noises;
  for (int epoch = 0; epoch < 3; ++epoch) {
    const GlobalBatch global_batch = loader.next();
    const auto inputs = global_batch.micro_batches[0].inputs.as<float>();
    for (size_t i = 0; i < inputs.size(); i += 2) {
      if (inputs[i + 1] == 1000) noises.insert(inputs[i]);
    }
  }
  EXPECT_EQ(noises.size(), 15u);
}

TEST(LoaderTest, WithoutRepeatStopsAfterTheEpoch) {
  for (const int64_t workers : {0, 3}) {
    std::atomic<int64_t> reads = 0;
    auto counted = std::make_shared<ChangedDataset>(10, [&](int64_t, Sample sample) {
      ++reads;
      return sample;
    });
    Loader loader(counted, {},
                  {.batch = 4,
                   .micro_batch = 4,
                   .workers = workers,
                   .prefetch = 9,
                   .shuffle = false,
                   .repeat = false});
    for (int pass = 1; pass <= 2; ++pass) {
      loader.seek(0, 0);
      int64_t samples = 0;
      while (loader.has_next()) samples += loader.next().samples;
      EXPECT_EQ(samples, 10);
      EXPECT_EQ(reads, 10 * pass);
    }
    EXPECT_THROW(loader.next(), std::logic_error);
    loader.seek(0, loader.steps_per_epoch());
    EXPECT_FALSE(loader.has_next());
  }
}

struct FailureCase {
  ChangedDataset::Change change;
  const char* message;
};

const FailureCase kFailures[] = {
    {[](int64_t id, Sample s) -> Sample {
       if (id == 5) throw DataError("the file is damaged", "copy it again");
       return s;
     },
     "sample 5: the file is damaged"},
    {[](int64_t id, Sample s) -> Sample {
       if (id == 5) throw std::out_of_range("index 9 of 3");
       return s;
     },
     "sample 5: index 9 of 3"},
    {[](int64_t id, Sample s) -> Sample {
       if (id == 5) s.input = Array::label(1);
       return s;
     },
     "the input of sample 5 is I64 [], but that of sample 4 in the same batch is F32 [2]"},
};

TEST(LoaderTest, AFailureIsThrownWhereItsSampleIsDueAndNamesIt) {
  for (const FailureCase& c : kFailures) {
    for (const int64_t workers : {0, 1, 4}) {
      Loader loader(
          std::make_shared<ChangedDataset>(20, c.change), {},
          {.batch = 2, .micro_batch = 2, .workers = workers, .prefetch = 8, .shuffle = false});
      EXPECT_EQ(loader.next().micro_batches[0].ids[1], 1);
      EXPECT_EQ(loader.next().micro_batches[0].ids[1], 3);
      try {
        loader.next();
        FAIL() << "no error";
      } catch (const DataError& error) {
        EXPECT_STREQ(error.what(), c.message);
      }
      loader.seek(0, 3);
      EXPECT_EQ(loader.next().micro_batches[0].ids[0], 6);
    }
  }
}

TEST(LoaderTest, ErrorsKeepTheirExitCodeAndHint) {
  auto broken = std::make_shared<ChangedDataset>(
      4, [](int64_t, Sample) -> Sample { throw IoError("no space", "free some"); });
  Loader loader(broken, {}, {});
  try {
    loader.next();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ExitCode::kIo);
    EXPECT_EQ(error.hint(), "free some");
  }
}

TEST(LoaderTest, IsDestroyedWhileWorkersAreBusy) {
  auto slow = std::make_shared<ChangedDataset>(1000, [](int64_t, Sample sample) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return sample;
  });
  for (int i = 0; i < 5; ++i) {
    Loader loader(slow, {}, {.batch = 4, .micro_batch = 2, .workers = 3, .prefetch = 4});
    loader.next();
  }
}

TEST(LoaderTest, ShapeIsThatOfTheLastTransform) {
  EXPECT_EQ(Loader(std::make_shared<NumberDataset>(4), {}, {}).shape().classes, 10);
  EXPECT_EQ(loader_of(std::make_shared<NumberDataset>(4), {}).shape().classes, 0);
}

TEST(LoaderTest, TooLittleDataIsRefused) {
  const auto complaint = [](int64_t size, const LoaderOptions& options) -> std::string {
    try {
      Loader(std::make_shared<NumberDataset>(size), {}, options);
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(complaint(0, {}), "the dataset holds no samples");
  EXPECT_EQ(complaint(5, {.batch = 8, .micro_batch = 8, .drop_last = true}),
            "the dataset holds 5 samples, fewer than one batch of 8");
  EXPECT_EQ(complaint(5, {.batch = 8, .micro_batch = 8}), "");
}

TEST(LoaderTest, MisuseIsABug) {
  const auto numbers = std::make_shared<NumberDataset>(8);
  EXPECT_THROW(Loader(numbers, {}, {.batch = 5, .micro_batch = 2}), std::logic_error);
  EXPECT_THROW(Loader(numbers, {}, {.micro_batch = 0}), std::logic_error);
  EXPECT_THROW(Loader(numbers, {}, {.rank = 0, .world = 2}), std::logic_error);
  Loader loader(numbers, {}, {.batch = 4, .micro_batch = 4});
  EXPECT_THROW(loader.seek(0, 3), std::out_of_range);
  EXPECT_THROW(loader.seek(-1, 0), std::out_of_range);
}

}  // namespace
}  // namespace accel::loader_test
