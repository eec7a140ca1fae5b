// A small registry for tests: one dataset and one tracker, and a section that holds components.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/api/dataset.h"
#include "core/recipe/registry.h"

namespace accel {

enum class TestMode { kNo, kBf16 };
template <>
struct EnumNames<TestMode> {
  static constexpr std::pair<TestMode, const char*> kValues[] = {{TestMode::kNo, "no"},
                                                                 {TestMode::kBf16, "bf16"}};
};

struct TestDataOptions {
  std::string path;
  int64_t size = 10;
  std::vector<int64_t> widths = {64};
};

/// A dataset that counts.
class TestData final : public Dataset {
 public:
  static constexpr auto kName = "counting";
  static constexpr auto kSummary = "Counts.";

  static Schema<TestDataOptions> schema() {
    return Schema<TestDataOptions>()
        .field("path", &TestDataOptions::path, "Where it is.")
        .required()
        .field("size", &TestDataOptions::size, "How many.", at_least<int64_t>(1))
        .field("widths", &TestDataOptions::widths, "How wide.", each(at_least<int64_t>(1)));
  }

  explicit TestData(const TestDataOptions& options) : size_(options.size) {}
  int64_t size() const override { return size_; }
  Sample sample(int64_t index) const override { return {Array::label(index), {}}; }
  DataShape shape() const override { return {}; }
  std::string fingerprint() const override { return "counting"; }

 private:
  int64_t size_;
};

struct TestLoader {
  int64_t workers = 2;
  bool shuffle = true;

  static Schema<TestLoader> schema() {
    return Schema<TestLoader>()
        .field("workers", &TestLoader::workers, "Threads.", between<int64_t>(0, 8))
        .field("shuffle", &TestLoader::shuffle, "New order.");
  }
};

/// What a recipe could be, with one option of every kind.
struct TestRecipe {
  int64_t seed = 42;
  double lr = 0.1;
  TestMode mode = TestMode::kNo;
  FilePath folder;
  Secret key;
  Duration until{3, Duration::Unit::kEpochs};
  Durations every;
  ByteSize cache{4096};
  Auto<int64_t> micro;
  std::optional<double> clip;
  std::vector<std::string> names;
  std::map<std::string, double> bounds;
  Ref<Dataset> train;
  std::vector<Ref<Dataset>> eval;
  TestLoader loader;

  static Schema<TestRecipe> schema() {
    return Schema<TestRecipe>()
        .handled("include", "a list of recipes", "What to start from.")
        .field("seed", &TestRecipe::seed, "Of everything.", at_least<int64_t>(0))
        .field("lr", &TestRecipe::lr, "Rate.", within(0.0, 1.0))
        .field("mode", &TestRecipe::mode, "Precision.")
        .field("folder", &TestRecipe::folder, "Where.")
        .field("key", &TestRecipe::key, "Secret.")
        .field("until", &TestRecipe::until, "End.")
        .field("every", &TestRecipe::every, "How often.")
        .field("cache", &TestRecipe::cache, "Memory.")
        .field("micro", &TestRecipe::micro, "Part.", if_given<Auto>(at_least<int64_t>(1)))
        .field("clip", &TestRecipe::clip, "Norm.", if_given<std::optional>(more_than(0.0)))
        .field("names", &TestRecipe::names, "Texts.")
        .field("bounds", &TestRecipe::bounds, "Numbers by name.")
        .field("train", &TestRecipe::train, "Data.")
        .required()
        .field("eval", &TestRecipe::eval, "More data.")
        .field("loader", &TestRecipe::loader, "Reading.");
  }
};

inline Registry test_registry() {
  Registry registry;
  registry.of<Dataset>().add(
      {TestData::kName, TestData::kSummary, TestData::schema().info()},
      [](const Node& node, Reading& reading) {
        const size_t before = reading.problems.size();
        const TestDataOptions options =
            TestData::schema().read(detail::without_type(node), reading);
        if (reading.problems.size() != before) return Ref<Dataset>{};
        return Ref<Dataset>{
            TestData::kName,
            detail::with_type(TestData::kName, TestData::schema().write(options, &node), node),
            [options](const DatasetContext&) { return std::make_unique<TestData>(options); }};
      });
  return registry;
}

}  // namespace accel
